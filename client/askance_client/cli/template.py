"""The text of `device.toml` as `init` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from askance_client.accounting import format_nats
from askance_client.addresses import Address
from askance_client.records import KINDS, Origin, Several, kind_of_path


@dataclass(frozen=True, slots=True)
class Given:
    """Values known when the file is written; the owner fills in the rest.

    Budgets are in nano-nats.
    """

    aggregator: Address | None = None
    ca: Path | None = None
    token_file: Path | None = None
    analyst: Sequence[bytes] = ()
    life_epsilon: int | None = None
    day_epsilon: int | None = None
    study_epsilon: int | None = None
    schema: Path | None = None
    origin: Origin | None = None
    row: int | None = None
    key: str | None = None
    rows_by_number: bool = False
    one_person: bool = False
    several: Several | None = None

    @property
    def complete(self) -> bool:
        """True if every required value is known."""
        needed = (self.aggregator, self.life_epsilon, self.schema, self.origin)
        return None not in needed and bool(self.analyst) and self.named and not self.lacks_query

    @property
    def named(self) -> bool:
        """True if the way to name members is known."""
        named = (
            self.row is not None or self.key is not None or self.rows_by_number or self.one_person
        )
        return named or (self.origin is not None and KINDS[self.origin.kind].names)

    @property
    def lacks_query(self) -> bool:
        """True if the records are in a database and no query is known."""
        origin = self.origin
        return origin is not None and KINDS[origin.kind].queried and origin.query is None


def device_toml(given: Given) -> str:
    """The commented file, by `device.toml` of this package; a line to be filled in says so."""
    values, needed = _values(given), _needed(given)
    files_of = ", ".join(word for word, kind in KINDS.items() if kind.key == "data")
    lines = []
    for line in _TEMPLATE.replace("{kinds}", files_of).splitlines(keepends=True):
        name = line.removeprefix("# ").partition(" = ")[0]
        if line.startswith("# ") and values.get(name) is not None:
            line = f"{name} = {values[name]}\n"
        elif line.startswith("# ") and name in needed:
            line = f"{line.rstrip()}  # FILL IN\n"
        lines.append(line)
    return "".join(lines)


_TEMPLATE = files(__package__).joinpath("device.toml").read_text("utf-8")


def _values(given: Given) -> dict[str, str | None]:
    """Return the known values by key, as TOML."""
    origin = given.origin
    return {
        "aggregator": _text(given.aggregator),
        "ca": _text(given.ca),
        "token_file": _text(given.token_file),
        "analysts": _listed(key.hex() for key in given.analyst) if given.analyst else None,
        "life_epsilon": _nats(given.life_epsilon),
        "day_epsilon": _nats(given.day_epsilon),
        "study_epsilon": _nats(given.study_epsilon),
        "schema": _text(given.schema),
        "key": _text(given.key),
        "row": None if given.row is None else str(given.row),
        "one_person": "true" if given.one_person else None,
        "rows_may_only_be_appended": "true" if given.rows_by_number else None,
        "several": _text(given.several and given.several.value),
        **({} if origin is None else _place(origin)),
    }


def _place(origin: Origin) -> dict[str, str | None]:
    """Return the key of one of the four places, and what a file needs besides."""
    chosen = KINDS[origin.kind].key
    told = chosen != "data" or kind_of_path(origin.where[0]) == origin.kind
    return {
        chosen: _listed(origin.where) if chosen == "command" else _quoted(origin.where[0]),
        "kind": None if told else _quoted(origin.kind),
        "query": _text(origin.query),
    }


def _needed(given: Given) -> set[str]:
    """Return the keys without which a device cannot run, known or not."""
    needed = {"aggregator", "analysts", "life_epsilon", "schema"}
    unknown = {"data": given.origin is None, "key": not given.named, "query": given.lacks_query}
    return needed | {name for name, lacks in unknown.items() if lacks}


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _text(value: object | None) -> str | None:
    return None if value is None else _quoted(str(value))


def _nats(nano_nats: int | None) -> str | None:
    return None if nano_nats is None else _quoted(format_nats(nano_nats))


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for a character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
