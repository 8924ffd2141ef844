"""The directive `wire`: the messages and services of the .proto files, with their comments."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

FOLDER = Path(__file__).resolve().parents[2] / "protos" / "askance_protos" / "v1"


class Wire(Directive):
    """Show each .proto file as it is: its comments are the reference."""

    required_arguments: ClassVar[int] = 0

    def run(self) -> list[nodes.Node]:
        """Return a section per file."""
        shown: list[nodes.Node] = []
        for path in sorted(FOLDER.glob("*.proto")):
            section = nodes.section(ids=[nodes.make_id(path.name)])
            section += nodes.title(text=path.name)
            text = path.read_text(encoding="utf-8")
            section += nodes.literal_block(text=text, language="protobuf")
            shown.append(section)
        return shown


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("wire", Wire)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
