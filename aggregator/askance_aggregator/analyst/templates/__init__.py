"""Templates of studies: definitions that are complete, to be changed and submitted.

Each is a TOML file of this package, with comments and a schema of its own. A setting replaces the
value of a key and leaves the comments as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from askance_aggregator.store.tagged_population import checked_tags
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text

_KEY = re.compile(r"^(?P<name>[a-z_]+) = (?P<value>.+)$")
_SCHEMA, _TAGS = "schema", "tags"
_POPULATION = "\n# Only devices that have all of these tags are asked.\n[population]\n"


@dataclass(frozen=True, slots=True)
class StudyTemplate:
    """A template by its name, as `new` takes it, and the TOML file's text."""

    name: str
    text: str

    @property
    def summary(self) -> str:
        """First line of the file: what the study finds."""
        return self.text.splitlines()[0].removeprefix("# ")

    @property
    def settings(self) -> dict[str, str]:
        """Keys that can be set and their values as TOML, in the file's order."""
        head = self.text.split("\n[schema]\n")[0].splitlines()
        found = (_KEY.match(line) for line in head)
        return {match["name"]: match["value"] for match in found if match is not None}

    def filled(self, settings: Mapping[str, str]) -> str:
        """Return the file with other values.

        Args:
          settings: values by key: those of `settings`; `schema`, the path of a schema's file, which
            takes the place of the template's own schema; and `tags`, of the devices that are asked,
            with commas between them.

        Raises:
          InvalidParameter: no such key, a value that is not a whole number where one stands, or a
            malformed tag.
        """
        known = self.settings
        text, tags = self.text, tuple[str, ...]()
        for name, value in settings.items():
            if name == _SCHEMA:
                text = _with_schema(text, value)
            elif name == _TAGS:
                tags = checked_tags(value.split(","))
            elif name not in known:
                raise InvalidParameter(f"--set: {unknown_text(name, [*known, _SCHEMA, _TAGS])}")
            else:
                line = f"{name} = {_toml(name, value, known[name])}"
                text = text.replace(f"\n{name} = {known[name]}\n", f"\n{line}\n", 1)
        return f"{text}{_POPULATION}tags = {json.dumps(tags)}\n" if tags else text


def list_templates() -> list[StudyTemplate]:
    """Return all templates, by name."""
    found = (one for one in files(__name__).iterdir() if one.name.endswith(".toml"))
    return sorted(
        (StudyTemplate(one.name.removesuffix(".toml"), one.read_text("utf-8")) for one in found),
        key=lambda template: template.name,
    )


def find_template(name: str) -> StudyTemplate:
    """Return the template of a name, or raise InvalidParameter."""
    found = {template.name: template for template in list_templates()}
    if name not in found:
        raise InvalidParameter(f"template: {unknown_text(name, list(found))}")
    return found[name]


def _with_schema(text: str, path: str) -> str:
    """Return a file whose schema is another file."""
    head = text.split("\n[schema]\n")[0]
    lines = head.rstrip().splitlines()
    while lines[-1].startswith("#"):  # of the schema that goes
        lines.pop()
    place = next(n for n, line in enumerate(lines) if line.startswith("learner = "))
    lines.insert(place + 1, f"{_SCHEMA} = {json.dumps(path, ensure_ascii=False)}")
    return "\n".join(lines).rstrip() + "\n"


def _toml(name: str, value: str, present: str) -> str:
    """Return a value as TOML, a text or a whole number like the present one."""
    if present.startswith('"'):
        return json.dumps(value, ensure_ascii=False)  # a TOML text takes JSON's escapes
    if not value.isascii() or not value.isdigit():
        raise InvalidParameter(f"--set {name}: expected a whole number, got {value!r}")
    return value
