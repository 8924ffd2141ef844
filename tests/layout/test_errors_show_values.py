"""Error messages that hide the value: none, but for the listed reasons.

An error about the caller's own configuration, argument, option or path shows the value
(`askance_client.printable.value_text`). The phrases below hide it. A message that has one of them
is listed here with the reason why the value may not be shown, or would not help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "client/askance_client",
    "aggregator/askance_aggregator",
    "simulation/askance_simulation",
    "papers/askance_papers",
    "askance",
)
LISTED = 80  # characters of a message that stand in the list
PHRASES = re.compile(
    r"\bfound (another|none|something else|others|neither)\b"
    r"|\bgot (another|something else|others)\b"
    r"|\b(found|got) other (?!=|bytes|text)"  # the content of a file is not shown
)
HIDDEN: dict[str, dict[str, set[str]]] = {
    "a record's value, a user's report, or an answer before its noise": {
        "papers/askance_papers/curator/conventions.py": {
            "row {}: expected a label of classes={}, found another",
        },
        "papers/askance_papers/curator/logistic/examples.py": {
            "a label of +1 or -1, found another",
        },
        "papers/askance_papers/curator/mechanisms/grid.py": {
            "answers: expected finite numbers below 2^60 steps, found another",
            "answers: expected finite numbers, found something else",
        },
        "papers/askance_papers/curator/mechanisms/hypotheses.py": {
            "features: expected 0 or 1, found another in {} of {} rows, row {} the first",
            "features: expected finite numbers, found another",
            "features: expected finite numbers, found another in {} of {} rows, row {} the fi",
            "hypothesis {}: expected {} or {} for each example, found something else",
            "labels: expected {} or {}, found another in {} of {} rows, row {} the first",
            "scorer: expected counts of 0 .. {}, found another",
            "weights: expected 0 or more, and a sum below 2^52, got others",
        },
        "papers/askance_papers/curator/mechanisms/queries.py": {
            "codes: expected 0 .. {}, found another in {} of {} rows, row {} the first",
            "query {}: expected values in {} .. {}, found another in {} of {} rows, row {} th",
        },
        "papers/askance_papers/curator/parity.py": {
            "examples: expected 0 or 1, found another number in row {}, column {}",
            "labels: expected 0 or 1, found another number in row {}",
        },
        "papers/askance_papers/curator/synopsis/small_databases.py": {
            "query {}: expected finite values of at most 2^30 sensitivities, found others",
        },
        "papers/askance_papers/curator/synopsis/universe.py": {
            "table, row {}, column {}: expected a code 0 .. {}, found another",
        },
        "aggregator/askance_aggregator/families/hypercube_response.py": {
            "reports are patterns of {}, found others",
        },
        "aggregator/askance_aggregator/families/random_codebook.py": {
            "reports are codes of {}, found others",
        },
        "aggregator/askance_aggregator/learners/prefixes.py": {
            "expected valid Unicode text, found another",
        },
        "aggregator/askance_aggregator/learners/rows.py": {
            "{}: expected a vector of bits, got another field",
        },
        "client/askance_client/device/record_work.py": {
            "value: expected one in the query's range, got another",
        },
        "client/askance_client/records/processes.py": {
            "{}: expected exit code 0, got another",
            "{}: expected status 200, got another",
        },
        "client/askance_client/randomizers/randomizer.py": {
            "a level and its coins are integers, found another type",
        },
        "client/askance_client/randomizers/rounding.py": {
            "a grid value and its coin are integers, found another type",
        },
        "client/askance_client/records/tables.py": {
            "expected quotes that close at the end of a cell, got others",
        },
        "simulation/askance_simulation/populations/labelled_bits.py": {
            "x: expected rows of {} zeros and ones, got others",
        },
        "papers/askance_papers/curate/data_table.py": {
            "column {}: expected a number, found something else in {} rows, row {} the first",
            "column {}: expected one of {} stated labels, found another at row {}",
            "column {}: expected values in {} .. {}, found another in {} rows, row {} the fir",
        },
        "simulation/askance_simulation/populations/arrow_records.py": {
            "{}: expected a Parquet file, got another format",
            "{}: expected the file as it was, got another one",
        },
        "simulation/askance_simulation/populations/arrow_columns.py": {
            "{}: expected text, numbers or times that can be read in {}, got others",
        },
        "simulation/askance_simulation/populations/sources.py": {
            "{}: expected a Parquet file, got another format",
        },
    },
    "a key or a token": {
        "aggregator/askance_aggregator/analyst/calls.py": {
            "token: expected {}: Bearer TOKEN, got another form",
        },
        "aggregator/askance_aggregator/server/webhooks/receivers.py": {
            "{}, got another text of {} characters",
        },
        "aggregator/askance_aggregator/analyst/keys.py": {
            "bearer token {}: expected one token, got another content",
        },
        "aggregator/askance_aggregator/server/callers/bearer.py": {
            "token: {}, got another",
            "token: expected one of {} in its claim {}, found none",
        },
        "aggregator/askance_aggregator/server/process/credentials.py": {
            "key {}: expected the certificate's key, got another",
        },
        "aggregator/askance_aggregator/server/process/tokens.py": {
            "expected an enrolment token of this aggregator, got another",
        },
    },
    "bytes that another process sent: an aggregator, a device, or an analyst": {
        "aggregator/askance_aggregator/analyst/calls.py": {
            "{}: expected a trusted analyst's key, got another",
            "{}: expected the signature of the caller's key, found none",
        },
        "aggregator/askance_aggregator/analyst/connections.py": {
            "expected a certificate that the ca signed, got another",
        },
        "aggregator/askance_aggregator/studies/series.py": {
            "aggregator: expected the results of epochs, found another form",
        },
        "aggregator/askance_aggregator/analyst/verification.py": {
            "result: expected epsilon in whole nano-nats, found another",
            "result: expected epsilon.{} as replayed, found another",
            "result: expected state among {}, found another",
            "epoch {}: result: expected {} as of its epochs, found another",
            "result: expected {} as of its epochs, found another",
            "result: expected {} as replayed, found another",
            "study: expected its analyst's signature over it, found none",
            "transcript: expected a header in line 1, found another event",
            "transcript: expected one that can be replayed, found another ({})",
            "transcript: expected round {} {} in line {}, found another event",
            "{}: expected a group for every question, found others",
            "{}: expected group {} among users not asked before, found others",
            "{}: expected group {}'s own request, found another",
        },
        "aggregator/askance_aggregator/analyst/messages.py": {
            "submission: expected a signed study, found none",
        },
        "aggregator/askance_aggregator/server/devices/servicer.py": {
            "expected a first message, found none in time",
        },
        "aggregator/askance_aggregator/server/studies/manager.py": {
            "study: expected one of this analyst's, found another analyst's",
            "study: expected one of this analyst's, found none",
        },
        "aggregator/askance_aggregator/store/audit.py": {
            "expected an event, found another text",
            "expected its number in its line, found another",
            "expected the digest {} in the log, found none: its end was cut off, or it was wr",
        },
        "askance/console/pages/study.py": {
            "aggregator: expected the parts of a study that this version shows, got another f",
        },
        "askance/cli/study.py": {
            "aggregator: expected the parts of a result that this version prints, got another",
        },
        "client/askance_client/service/open_side.py": {
            "expected a certificate that the ca signed, got another: {}",
        },
        "client/askance_client/codec/exchange.py": {
            "report: expected a symbol or a refusal, found neither",
        },
        "client/askance_client/codec/parsing.py": {
            "{}: expected known fields only, found others",
        },
        "client/askance_client/codec/randomizers.py": {
            "randomizer: expected a family, found none",
        },
        "client/askance_client/codec/studies.py": {
            "schema: expected a type for field {}, found none",
            "study: expected a distribution as name==version, found none",
            "study: expected an expiry, found none",
            "study: expected fields of its schema, got another name",
            "study: expected {} as a fraction in lowest terms, found none",
        },
        "client/askance_client/device/examination.py": {
            "expected a request of this study, found another's",
        },
    },
    "a digest or a stored row, which would tell the reader nothing": {
        "aggregator/askance_aggregator/studies/local.py": {
            "round {}: expected question {} as recorded, found another",
            "transcript: expected the stop of round {} as replayed, got another",
            "transcript: expected this study's header, found another's",
        },
        "aggregator/askance_aggregator/studies/transcript.py": {
            "transcript: expected an event of {} at line {}, found another: {}",
        },
        "aggregator/askance_aggregator/studies/waves.py": {
            "wave {}: expected the requests of the wave before, found others",
        },
        "client/askance_client/cli/report.py": {
            "expected a symbol of the request's randomizer, found none",
            "expected the digest of the question in this request, found another",
            "expected the hash of this row and those before it, found another",
            "expected the request that was charged, found another",
            "expected the study that was charged, found another",
        },
        "client/askance_client/ledger/marked.py": {
            "expected its own {}, found another ledger's",
            "expected row {} to be the one that its {} has, found another",
        },
    },
    "what stands in a file of another kind, perhaps of records; its path is shown": {
        "aggregator/askance_aggregator/analyst/export.py": {
            "{}: expected the format {}, got another",
        },
        "client/askance_client/sqlite_file.py": {
            "{} {}: expected a {}, got another kind of file",
        },
        "simulation/askance_simulation/experiments/sweeps/row_file.py": {
            "{}: expected a sweep's row, got another text on line {}",
        },
    },
}


def messages(source: str) -> Iterator[str]:
    """Yield every text of a module, with {} for what a formatted one is filled with."""
    tree = ast.parse(source)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for text in joined for part in text.values}
    for text in joined:
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in text.values
        )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in inside and type(node.value) is str:
            yield node.value


def hiding(source: str) -> set[str]:
    """Return the beginnings of a module's texts that hide a value."""
    return {text[:LISTED] for text in messages(source) if PHRASES.search(text)}


def test_a_message_that_hides_its_value_has_a_reason() -> None:
    listed = {(path, text) for files in HIDDEN.values() for path in files for text in files[path]}
    there = {
        (path.relative_to(ROOT).as_posix(), text)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in hiding(path.read_text(encoding="utf-8"))
    }
    assert there - listed == set(), "show the value by value_text, or list the message"
    assert listed - there == set(), "the list names messages that are gone"


@pytest.mark.parametrize(
    "line",
    [
        'raise InvalidParameter("level: expected one of a, b, found another")',
        'raise InvalidParameter(f"{name}: expected 1 or more, found another value")',
        'raise InvalidParameter(f"{name}: expected a table," " found none")',
        'raise InvalidRecord(f"{name}: expected TOML, found something else: {error}")',
        'error = "expected a number, got something else"',
        'raise InvalidParameter("MaskedParity expects bits r, found other numbers")',
    ],
)
def test_a_new_message_of_that_kind_is_seen(line: str) -> None:
    assert len(hiding(line)) == 1


def test_a_message_that_shows_its_value_is_none_of_them() -> None:
    shows = 'raise InvalidParameter(f"level: expected one of a, b, got {value_text(level)}")'
    assert hiding(shows) == set()


OTHER_WORD = re.compile(r"\bexpect(?:ed|s)?\b.*[,(;] found\b", re.DOTALL)


@pytest.mark.parametrize("package", ["askance", "simulation/askance_simulation"])
def test_messages_of_commands_and_simulations_say_got(package: str) -> None:
    """Messages of a device stand in vectors, and in the device in TypeScript."""
    other = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in messages(path.read_text(encoding="utf-8"))
        if OTHER_WORD.search(text)
    ]
    assert other == []


@pytest.mark.parametrize(
    ("line", "is_other"),
    [
        ('raise InvalidParameter(f"users: expected 1 or more, found {users}")', True),
        ('raise InvalidParameter(f"trials expects 1 or more," f" found {trials!r}")', True),
        ('raise InvalidParameter(f"users: expected 1 or more, got {users}")', False),
        ('note = "of 9 requests 3 found no device"', False),
    ],
)
def test_the_other_word_is_seen(line: str, is_other: bool) -> None:
    assert any(map(OTHER_WORD.search, messages(line))) == is_other
