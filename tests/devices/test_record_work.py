"""The rule of the timed part in TypeScript: modules that read a record, or what follows from it."""

from __future__ import annotations

import re

import pytest

from tests.devices.test_typescript import sources

# Functions that a record, a value or a draw passes through, and the modules that may name them.
CALLS = {
    r"\.evaluate(Vector)?\(": {"device/record_work.ts"},
    r"\.(randomize|vectorLevel)\(|\broundToLevels\(": {"device/record_work.ts"},
    r"\bschema\.encode\(": {"service/record_worker.ts"},
    r"\bEncodedRecord\b": {"device/record_work.ts"},
    r"\bRawRecord\b": {
        "device/record_work.ts",
        "embedding.ts",  # passes it on to the thread, when the owner gives it
        "index.ts",
        "node/record_file.ts",  # reads it within the time of an evaluation
        "node/records.ts",  # parses the owner's file
        "service/evaluation.ts",  # keeps it for a thread that is started anew
        "service/record_worker.ts",
    },
}
FAMILIES = ("queries/", "randomizers/")  # they define these, and call them on nothing else
DECIDES = ("core", "examination", "policy", "settling")


@pytest.mark.parametrize("call", CALLS)
def test_records_and_values_are_named_by_few_modules(call: str) -> None:
    users = {name for name, text in sources() if re.search(call, text)}
    assert {name for name in users if not name.startswith(FAMILIES)} == CALLS[call]


@pytest.mark.parametrize("module", DECIDES)
def test_what_decides_knows_neither_records_nor_coins(module: str) -> None:
    text = dict(sources())[f"device/{module}.ts"]
    assert not re.search(r"record_work|Coins|Words|getRandomValues", text.split("*/", 1)[1])


def test_the_page_sends_what_was_committed_and_nothing_else() -> None:
    """Reports are put into the outbox by one call, with what `Turn.finish` returned."""
    text = dict(sources())["service/runtime.ts"]
    assert len(re.findall(r"this\.#put\(", text)) == 1
    assert re.search(r"of await turn\.finish\(worked\)\) \{\s*this\.#put\(", text)
