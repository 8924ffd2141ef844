"""The text of `device.toml` as `init` writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
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
    """The commented file; a line that must be filled in says so."""
    return "\n".join([*_head(given), *_policy(given), *_records(given), *_RUN, ""])


_FILL_IN = "FILL IN"
_RUN = (
    "",
    "[run]",
    "# Reports leave at a multiple of so many milliseconds after their requests came, whatever the",
    "# record; a record that is not read and evaluated in half of it is answered by the default.",
    "release_ms = 1000",
    "# Over how many connections the check-ins of `run --once` are spread; `run` has one stream.",
    "connections = 8",
    "# The longest wait between two tries to reach the aggregator.",
    "longest_wait_s = 60",
)


def _head(given: Given) -> list[str]:
    return [
        "# A device: what it answers, whom, and for how much. Paths are relative to this file.",
        f"# What must be filled in before it can run says {_FILL_IN}.",
        "",
        _line("aggregator", _text(given.aggregator), '"HOST:PORT"'),
        "# The authority that signed the aggregator's certificate. Without it: plain text, on",
        "# loopback only, or with plaintext = true.",
        _optional("ca", _text(given.ca), '"ca.pem"'),
        "# The operator's enrolment token: `run` enrolls with it at its first start, and `enroll`",
        "# without another. It is not needed once that is done.",
        _optional("token_file", _text(given.token_file), '"token"'),
        "# A counter that is not put back with this folder: a file on another volume, or",
        '# "command:WORDS". With it a folder that was put back whole is refused.',
        '# counter = "/mnt/other/device.counter"',
    ]


def _policy(given: Given) -> list[str]:
    keys = ", ".join(_quoted(key.hex()) for key in given.analyst)
    return [
        "",
        "[policy]",
        "# The analysts whose studies are answered: public keys of 64 hexadecimal digits each.",
        _line("analysts", f"[{keys}]" if keys else None, '["PUBLIC KEY"]'),
        "# The most that all studies together may ever cost, in nats; a text or a whole number.",
        _line("life_epsilon", _nats(given.life_epsilon), '"8"'),
        "# The most that one UTC day, or one study, may cost.",
        _optional("day_epsilon", _nats(given.day_epsilon), '"2"'),
        _optional("study_epsilon", _nats(given.study_epsilon), '"1"'),
        "# The most answers to one study, ever; and the most seconds of processor time that one",
        "# study may take per day, counted for a slow machine (a server takes a tenth of them).",
        "# study_answers = 4096",
        "# study_seconds = 600",
        "# The most that the last 30 days, this one included, may cost.",
        '# window_epsilon = "4"',
        "# window_days = 30",
        "# Repeated studies get a new answer in every epoch, at full charge, if an epoch has so",
        '# many days or more. Without it: "never", and every epoch is refused.',
        '# refresh = "30d"',
        "# The fields that may be asked about; without it: all of the schema.",
        '# fields = ["age"]',
        "# Studies on which the owner has not decided: answered if an analyst above signed them",
        '# ("pinned"), or held until `device approve FOLDER STUDY` ("ask").',
        '# consent = "ask"',
        "# An approval holds for so many days; without it: until the study expires.",
        "# consent_days = 30",
        '# With "ask": what was decided is acted on after so many seconds on average, at a random',
        "# time that says nothing about when it was decided.",
        "# consent_wait_s = 600",
    ]


def _records(given: Given) -> list[str]:
    return [
        "",
        "[records]",
        "# What a record is, and where records are. They are read anew for every new question.",
        _line("schema", _text(given.schema), '"people.toml"'),
        *_origin(given),
        "# One of four, and never another once the folder is in use: a person who is named in two",
        "# ways has two budgets. A gateway, for all rows: the column that names people.",
        _optional("key", _text(given.key), '"id"') if given.named else _line("key", None, '"id"'),
        "# One person, by the row's number from 0.",
        _optional("row", None if given.row is None else str(given.row), "0"),
        "# One person, whose records are all rows.",
        _optional("one_person", "true" if given.one_person else None, "true"),
        "# A gateway whose people are named by the row's number. Risk: if a row is ever inserted,",
        "# removed or moved, people answer from the budget of others, and are charged twice.",
        _optional("rows_may_only_be_appended", "true" if given.rows_by_number else None, "true"),
        "# A person's several records: a question is answered from one drawn at random (draw) or",
        "# from the first; otherwise they are refused.",
        _optional("several", _text(given.several and given.several.value), '"draw"'),
        "# The source's columns, for fields of other names.",
        '# fields = { age = "AGE IN YEARS" }',
    ]


_PLACES = (
    ("data", '"people.csv"', "A file (CSV, JSON, Parquet, SQLite ...) or a folder."),
    ("command", '["/usr/bin/records"]', "A command that prints JSON; no shell."),
    ("url", '"http://127.0.0.1:8080/records"', "An endpoint of this machine that serves JSON."),
    ("environment", '"RECORD_"', "Variables of the environment, by their prefix."),
)


def _origin(given: Given) -> list[str]:
    """The lines of the four places, of which one is chosen, and of what a file needs besides."""
    origin = given.origin
    chosen = "data" if origin is None else KINDS[origin.kind].key
    lines = []
    for key, example, comment in _PLACES:
        lines.append(f"# {comment}")
        if key != chosen:
            lines.append(_optional(key, None, example))
        elif origin is None:
            lines.append(_line(key, None, example))
        else:
            words = [_quoted(word) for word in origin.where]
            lines.append(_line(key, f"[{', '.join(words)}]" if key == "command" else words[0], ""))
    files = [word for word, kind in KINDS.items() if kind.key == "data"]
    told = origin is None or chosen != "data" or kind_of_path(origin.where[0]) == origin.kind
    lines += [
        f"# The kind of data, if its suffix does not tell: {', '.join(files)}.",
        _optional("kind", None if told or origin is None else _quoted(origin.kind), '"sqlite"'),
        "# The query of a database; its columns are those of the records.",
    ]
    example = '"SELECT id, age FROM people"'
    if given.lacks_query:
        return [*lines, _line("query", None, example)]
    return [*lines, _optional("query", _text(origin and origin.query), example)]


def _line(name: str, value: str | None, example: str) -> str:
    if value is None:
        return f"# {name} = {example}  # {_FILL_IN}"
    return f"{name} = {value}"


def _optional(name: str, value: str | None, example: str) -> str:
    return f"# {name} = {example}" if value is None else f"{name} = {value}"


def _text(value: object | None) -> str | None:
    return None if value is None else _quoted(str(value))


def _nats(nano_nats: int | None) -> str | None:
    return None if nano_nats is None else _quoted(format_nats(nano_nats))


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for a character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
