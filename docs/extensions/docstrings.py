"""Docstrings as they are written: plain text with `code`, and formulas or code indented by four.

Everything else that reStructuredText would read as markup (a star, a bar, a trailing underscore) is
itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any, get_type_hints

from docutils.nodes import Element
from sphinx.application import Sphinx

from askance_aggregator.learners.parameters import declared

_MARKUP = re.compile(r"\\|\*|\||(?<=\w)_(?!\w)")
_CODE = re.compile(r"(`[^`\n]+`)")
_OBJECT = re.compile(r"(?<=[= ])<[^<>]*>")  # the text of an object that has no expression
_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Attributes):$")


def _escaped(line: str) -> str:
    """Return a line whose characters outside code are no markup."""
    parts = _CODE.split(line)
    parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def as_markup(lines: list[str]) -> Iterator[str]:
    """Yield a docstring's lines in reStructuredText.

    Args:
        lines: of the docstring, without its common indentation.
    """
    in_section, literal, blank = False, False, False
    for line in lines:
        indented = line.startswith("    ")
        if line.strip() and not indented:
            in_section, literal = bool(_SECTION.match(line)), False
        elif indented and blank and not in_section and not literal:
            literal = True
            yield from ("::", "")
        yield line if literal else _escaped(line)
        blank = not line.strip()


def _on_docstring(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    lines[:] = as_markup(list(lines))


def as_signature(signature: str) -> str:
    """Return a signature whose defaults are expressions: an object, or a factory, becomes `...`.

    A signature that Sphinx cannot parse is shown with the full path of every type.
    """
    return _OBJECT.sub("...", signature)


def _plain_annotations(app: Sphinx, thing: Any, bound: bool) -> None:
    """Show the types of a learner's arguments without the texts that stand beside them."""
    function = inspect.unwrap(thing) if callable(thing) else thing
    try:
        full, plain = get_type_hints(function, include_extras=True), get_type_hints(function)
    except (TypeError, NameError, AttributeError):
        return
    if isinstance(function, FunctionType) and full != plain:
        declared(thing)  # which reads the texts, and remembers them
        function.__annotations__ = thing.__annotations__ = plain


def _on_signature(
    app: Sphinx, what: str, name: str, thing: object, options: object, *parts: str | None
) -> tuple[str | None, str | None]:
    signature, returned = parts
    return signature and as_signature(signature), returned


def _on_description(app: Sphinx, domain: str, kind: str, content: Element) -> None:
    """Leave members out of the tables of contents, all of which are copied for each page."""
    if domain == "py" and kind not in ("class", "data", "exception", "function"):
        content.parent["no-contents-entry"] = True


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("object-description-transform", _on_description)
    app.connect("autodoc-process-docstring", _on_docstring, priority=400)  # before napoleon's 500
    app.connect("autodoc-before-process-signature", _plain_annotations)
    app.connect("autodoc-process-signature", _on_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
