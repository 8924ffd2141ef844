"""Every limit of the trusted base, at its value and one past it.

A constant of `client/` that is named MAX_... or MIN_... has a line here: its value, something that
is accepted at it and something one past it that is refused; or the test that does so, or the reason
why there is none. A new constant without a line fails.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from grpc import aio

from askance_aggregator import encoding
from askance_aggregator.exchange import decode_enrol
from askance_aggregator.families import linear_hashing
from askance_aggregator.families.linear_hashing import each_sums, table_sums
from askance_aggregator.queries import (
    category,
    dot,
    first,
    real,
    vector,
)
from askance_aggregator.server.devices.credentials import (
    read_enrolment,
)
from askance_client import KeptHistory, codec
from askance_client.accounting import check_nano_nats, parse_epsilon
from askance_client.addresses import Address
from askance_client.codec import studies
from askance_client.codec.exchange import decode_report
from askance_client.codec.parsing import parse
from askance_client.codec.queries import decode_query
from askance_client.errors import AskanceError
from askance_client.ledger import LedgerFile
from askance_client.messages import AckStatus, Conduct, Repeat
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Real,
    Schema,
    constant,
)
from askance_client.queries.exact import exact_ratio
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    SubsetSelection,
    round_to_levels,
)
from askance_client.records.naming import name_in
from askance_client.service import observable
from askance_client.service.credentials import (
    RETRY_KEY,
    enrolment_metadata,
    read_retry_ms,
)
from askance_client.service.exchange import Enrol, Response, encode_enrol
from askance_client.service.identity import Identity
from askance_client.service.runtime import DeviceRunner, Outbox
from askance_protos.v1 import exchange_pb2, query_pb2, study_pb2

CLIENT = Path(codec.__file__).parents[1]
M = 1 << 64
WIDE = Schema("wide", 1, v=Bits(4096), b=Bit(), x=Real(0, 1, 4))


@dataclass(frozen=True)
class Limit:
    """A limit's value, and a function that accepts numbers up to it (or down to it)."""

    value: int
    accepts: Callable[[int], object]
    past: int = 1


def report_of(size: int) -> object:
    """A report whose bytes are so many."""
    head = exchange_pb2.Report(request_digest=bytes(32), charged_nano_nats=1, spent_nano_nats=1)
    head.symbol = bytes(size - len(head.SerializeToString()) - 3)
    data = head.SerializeToString()
    assert len(data) == size
    return decode_report(data)


def study_of(size: int) -> object:
    """A message whose bytes are so many."""
    data = study_pb2.Study(purpose="x" * (size - 4)).SerializeToString()
    assert len(data) == size
    return parse(study_pb2.Study, data)


def table(levels: int, symbols: int) -> Channel:
    entry = M // symbols
    row = (M - entry * (symbols - 1), *[entry] * (symbols - 1))
    return Channel((row,) * levels)


def nested(depth: int) -> Expression:
    expression = WIDE.b
    for _ in range(depth - 1):
        expression = ~expression
    return expression


def program(nodes: int) -> object:
    """A query of this many distinct nodes, on the wire and back: a choice among a vector's bits."""
    message = query_pb2.Query()
    message.CopyFrom(encoding.encode_query(category(first(list(WIDE.v)[: nodes - 2]))))
    assert len(message.nodes) == nodes
    return decode_query(message, WIDE)


def weighing(weight: int) -> Expression:
    """A choice among 16 signs of weighted sums, of this many nodes, arguments and constants.

    Two fields 2, 15 sums of 4,096 bits 15 x 4,098, one of `few` bits few + 2, 16 comparisons
    16 x 3, their constant 2, the choice 17: few + 61,541.
    """
    few = weight - 61_541
    schema = Schema("weighing", 1, v=Bits(4096), w=Bits(few))
    sums = [dot([k] * 4096, schema.v) for k in range(1, 16)] + [dot([1] * few, schema.w)]
    expression = first([each > 0 for each in sums])
    assert expression.weight == weight
    return expression


def modulus_allowed(table: int, each: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    module = import_module("askance_aggregator.families.linear_hashing")
    monkeypatch.setattr(module, "_MAX_TABLE_SUMS", table)
    monkeypatch.setattr(module, "_MAX_EACH_SUMS", each)
    return 17 in module._moduli(300, range(17, 18))


def enrolment_of(devices: int) -> object:
    message = Enrol(tuple((number.to_bytes(2, "big"), bytes(32)) for number in range(devices)))
    return decode_enrol(encode_enrol(message))


def unacknowledged(reports: int) -> None:
    """An outbox keeps so many, and once more the last of them."""
    outbox = Outbox()
    for number in [*range(reports), reports - 1]:
        outbox.put(number.to_bytes(32, "big"), b"report")


def opened() -> LedgerFile:
    """A ledger file without a file, for what is decided from names only."""
    return LedgerFile(cast(Any, None))


LIMITS: dict[str, Limit] = {
    "accounting/nano_nats.py MAX_NANO_NATS": Limit(10**15, check_nano_nats),
    "accounting/nano_nats.py _MAX_TEXT": Limit(64, lambda n: parse_epsilon("1." + "0" * (n - 2))),
    "addresses.py _MAX_PORT": Limit(65535, lambda n: Address.of(f"host:{n}")),
    "codec/exchange.py MAX_REPORT_BYTES": Limit(16 * 1024, report_of),
    "codec/parsing.py MAX_MESSAGE_BYTES": Limit(256 * 1024, study_of),
    "codec/studies.py _MAX_FRACTION": Limit(
        64, lambda n: studies._fraction("beta", "1/1" + "0" * (n - 3))
    ),
    "ledger/sqlite.py MAX_MEMBER_BYTES": Limit(256, lambda n: opened().ledger("m" * n)),
    "ledger/sqlite.py MAX_ENROLMENT_BYTES": Limit(64, lambda n: opened().ledger("m", bytes(n))),
    "messages.py MAX_WAVES": Limit(16, lambda n: Conduct(waves=n)),
    "queries/exact.py _MAX_TEXT": Limit(128, lambda n: known(exact_ratio("1." + "0" * (n - 2)))),
    "queries/limits.py MAX_BITS": Limit(4096, Bits),
    "queries/limits.py MAX_CELLS": Limit(
        1 << 20, lambda n: category(Schema("s", 1, i=Integer(0, n - 1)).i)
    ),
    "queries/limits.py MAX_COMPONENTS": Limit(1024, lambda n: vector([WIDE.x] * n)),
    "queries/limits.py MAX_DEPTH": Limit(64, nested),
    "queries/limits.py MAX_FIELDS": Limit(
        4096, lambda n: Schema("s", 1, **{f"f{i}": Bit() for i in range(n)})
    ),
    "queries/limits.py MAX_FRAC": Limit(40, lambda n: (constant(1, n), Real(0, 1, n))),
    "queries/limits.py MAX_LABELS": Limit(1 << 16, lambda n: Category(range(n))),
    "queries/limits.py MAX_LABEL_BYTES": Limit(1024, lambda n: Category(["x" * n])),
    "queries/limits.py MAX_MAGNITUDE": Limit(
        (1 << 62) - 1, lambda n: (constant(n), constant(-n), Integer(0, n), Integer(-n, 0))
    ),
    "queries/limits.py MAX_NODES": Limit(4096, program),
    "queries/limits.py MAX_WEIGHT": Limit(1 << 16, weighing),
    "queries/limits.py MAX_SPREAD": Limit(
        (1 << 31) - 1, lambda n: real(Schema("s", 1, i=Integer(0, n)).i)
    ),
    "queries/schema.py _MAX_NAME": Limit(128, lambda n: Schema("s" * n, 1, b=Bit())),
    "queries/schema.py _MAX_VERSION": Limit((1 << 32) - 1, lambda n: Schema("s", n, b=Bit())),
    "randomizers/channel.py MIN_SIDE": Limit(2, lambda n: (table(n, 3), table(3, n)), -1),
    "randomizers/channel.py MAX_LEVELS": Limit(720, lambda n: table(n, 2)),
    "randomizers/channel.py MAX_SYMBOLS": Limit(720, lambda n: table(2, n)),
    "randomizers/hypercube_response.py MAX_COMPONENTS": Limit(
        1024, lambda n: HypercubeResponse(n, 0, 1)
    ),
    "randomizers/random_codebook.py MAX_CODES": Limit(
        65520, lambda n: RandomCodebook(16, 1, -(-n // 36), 1, 1)
    ),
    "randomizers/random_codebook.py MAX_RADIUS": Limit(
        1 << 40, lambda n: RandomCodebook(1, n, 1, 1, 1)
    ),
    "randomizers/k_ary.py MIN_CELLS": Limit(2, lambda n: KaryResponse(n, 1), -1),
    "randomizers/k_ary.py MAX_CELLS": Limit(1 << 20, lambda n: KaryResponse(n, 1)),
    "randomizers/linear_hashing.py MIN_HASHED": Limit(3, lambda n: linear_hashing(n, 10**9), -1),
    "randomizers/linear_hashing.py MAX_HASHED": Limit(1 << 20, lambda n: LinearHashing(n, 2, 1)),
    "randomizers/linear_hashing.py MAX_MODULUS": Limit(
        65_521, lambda n: LinearHashing(1 << 20, n, 1), 65_537 - 65_521
    ),
    "randomizers/rounding.py MAX_SPAN": Limit(
        (1 << 31) - 1, lambda n: round_to_levels(0, 0, n, 2, 0)
    ),
    "randomizers/rounding.py MAX_ROUNDING_LEVELS": Limit(
        1 << 16, lambda n: round_to_levels(0, 0, 1, n, 0)
    ),
    "messages.py MAX_EVERY_DAYS": Limit(3_660, lambda n: Repeat(n, 1, 1)),
    "messages.py MAX_EPOCHS": Limit(1_024, lambda n: Repeat(1, n, 1)),
    "records/histories.py MAX_EPOCHS": Limit(
        256, lambda n: KeptHistory(dict, Path("no-such-file"), ["busy"], 7, n, wall_ms=lambda: 0)
    ),
    "records/naming.py MAX_NAME_BYTES": Limit(256, lambda n: known(name_in("n" * n))),
    "randomizers/signed_levels.py MAX_VALUES": Limit(32767, lambda n: HadamardSign(n, 1)),
    "randomizers/subset_selection.py MAX_MEMBERS": Limit(
        8192, lambda n: SubsetSelection(20_000, n, 1)
    ),
    "randomizers/subset_selection.py MAX_WIDTH": Limit(
        8190, lambda n: SubsetSelection(1 << 20, n // 3, 1), 3
    ),
    "service/credentials.py _MAX_RETRY_DIGITS": Limit(
        9, lambda n: known(read_retry_ms([(RETRY_KEY, "9" * n)]) or None)
    ),
    "service/exchange.py MAX_ENROLMENTS": Limit(4096, enrolment_of),
    "service/exchange.py MAX_ENROLMENT_TOKEN_BYTES": Limit(
        1024, lambda n: known(read_enrolment(enrolment_metadata(bytes(n))) or None)
    ),
    "service/runtime.py MAX_UNACKNOWLEDGED": Limit(1024, unacknowledged),
    "service/identity.py MAX_ID_BYTES": Limit(64, lambda n: Identity(bytes(n), bytes(16))),
    "service/identity.py MIN_TOKEN_BYTES": Limit(16, lambda n: Identity(b"d", bytes(n)), -1),
    "service/identity.py MAX_TOKEN_BYTES": Limit(64, lambda n: Identity(b"d", bytes(n))),
}

HERE = "tests/trusted_base/test_limits.py"
OWNER = "tests/client/owner"
PAGE = "tests/client/console/test_guards.py"
DEVICES = "tests/aggregator/server/devices"
BOUNDS = "tests/client/device/test_remembered_bounds.py"
# What no number can be passed to: its value, and the file of a test at the limit and past it.
ELSEWHERE: dict[str, tuple[int, str]] = {
    "console/server.py MAX_AT_ONCE": (32, PAGE),
    "console/server.py MAX_FIELDS": (16, PAGE),
    "console/server.py MAX_FORM_BYTES": (4096, PAGE),
    "console/server.py MAX_TARGET": (2048, PAGE),
    "console/command.py _MAX_PAGE": (10_000, PAGE),
    "device/core.py _MAX_STUDIES": (256, BOUNDS),
    "device/examination.py _MAX_BYTES": (2 << 20, BOUNDS),
    "device/examination.py _MIN_KNOWN_BYTES": (512, BOUNDS),
    "device/settling.py MAX_WEIGHT": (5 << 18, "tests/client/device/test_record_work.py"),
    "device/settling.py MAX_REFUSALS": (256, BOUNDS),
    "device/settling.py _MAX_COUNTED": (256, BOUNDS),
    "ledger/contract.py MAX_ANSWERS": (1 << 16, "tests/attacks/test_trusted_base.py"),
    "owner/consents.py MAX_WAITING": (64, f"{OWNER}/test_consents.py"),
    "owner/consents.py MAX_QUESTIONS": (8, f"{OWNER}/test_consents.py"),
    "owner/consents.py MAX_QUESTION_BYTES": (1 << 16, f"{OWNER}/test_consents.py"),
    "owner/consents.py MAX_DAYS": (3_660, f"{OWNER}/test_consents.py"),
    "owner/consents.py MAX_WHY": (200, f"{OWNER}/test_consents.py"),
    "owner/control.py MAX_AT_ONCE": (8, f"{OWNER}/test_control.py"),
    "owner/control.py MAX_REQUEST_BYTES": (4096, f"{OWNER}/test_control.py"),
    "owner/control.py MAX_LINE_BYTES": (1 << 20, f"{OWNER}/test_control.py"),
    "owner/control.py _MAX_PATH": (100, f"{OWNER}/test_control.py"),
    "records/databases.py MAX_ROWS": (1 << 22, "tests/client/records/test_sources.py"),
    "records/processes.py MAX_OUTPUT_BYTES": (1 << 24, "tests/client/records/test_sources.py"),
    "records/tables.py MAX_CELL_CHARACTERS": (1 << 17, "tests/client/records/test_tables.py"),
    "records/tables.py MAX_DIGITS": (640, "tests/client/records/test_tables.py"),
    "service/observable.py MAX_EXCHANGES": (64, HERE),
    "service/exchange.py MAX_ENTRIES": (1 << 20, f"{DEVICES}/test_parts.py"),
    "service/exchange.py MAX_REPORTS": (64, f"{DEVICES}/test_overload_and_loss.py"),
    "service/exchange.py MAX_REQUESTS": (64, f"{DEVICES}/test_hostile_aggregator.py"),
    "service/exchange.py MAX_STUDIES": (64, f"{DEVICES}/test_hostile_aggregator.py"),
    "service/exchange.py MAX_KNOWN_STUDIES": (256, f"{DEVICES}/test_refused_calls.py"),
    "service/exchange.py MAX_REQUEST_MESSAGE_BYTES": (1 << 20, f"{DEVICES}/test_refused_calls.py"),
    "service/exchange.py MAX_CHECK_IN_BYTES": (1 << 17, f"{DEVICES}/test_connection_guard.py"),
    "service/exchange.py MAX_RESPONSE_BYTES": (1 << 20, f"{DEVICES}/test_hostile_aggregator.py"),
    "ledger/sqlite.py MAX_PAYLOADS": (1 << 30, "tests/client/ledger/test_rows_and_marks.py"),
    "ledger/sqlite.py MAX_STUDY_PAYLOADS": (1 << 26, "tests/client/ledger/test_rows_and_marks.py"),
}

# Constants that cut a text or bound a configuration, and refuse no record and no peer.
NOT_LIMITS = {
    "owner/application.py _MAX_AGREED": "forgets consents of a run, which are asked for again",
    "owner/control.py MAX_LINES": "lines of an answer; a test of 2^26 would take minutes",
    "queries/rendering.py _MAX_DEPTH": "cuts the text of an expression in an error",
    "queries/rendering.py _MAX_ITEMS": "cuts the text of an expression in an error",
    "records/tables.py _MAX_NAME": "cuts a column's name to a field's",
}
# Packages whose limits the tests of the service and of the commands hold.
OTHERS = ("cli/", "ledger/sqlite.py", "service/", "toml_tables.py")


def known(value: Any) -> Any:
    if value is None:
        raise AskanceError("not a number")
    return value


def constants() -> Iterator[str]:
    """All assignments to MAX_... and MIN_... at the top of a module of the client."""
    for path in sorted(CLIENT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Name) and re.match("_?(MAX|MIN)_", target.id):
                    yield f"{path.relative_to(CLIENT).as_posix()} {target.id}"


def test_every_limit_has_a_test_at_it_and_one_past_it() -> None:
    """A new limit is listed; what is listed exists."""
    found = set(constants())
    listed = {*LIMITS, *ELSEWHERE, *NOT_LIMITS}
    assert {name for name in found - listed if not name.startswith(OTHERS)} == set()
    assert {name for name in listed - found if not name.startswith(OTHERS)} == set()
    root = Path(__file__).resolve().parents[2]
    for name, (value, file) in ELSEWHERE.items():
        path, constant_name = name.split()
        module = import_module("askance_client." + path.removesuffix(".py").replace("/", "."))
        assert getattr(module, constant_name) == value, name
        assert constant_name in (root / file).read_text("utf-8"), name


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_limit_accepts_its_value_and_refuses_one_and_two_past_it(name: str, steps: int) -> None:
    limit = LIMITS[name]
    if not steps:
        limit.accepts(limit.value)
        return
    with pytest.raises(AskanceError):
        limit.accepts(limit.value + steps * limit.past)


def test_a_modulus_is_chosen_up_to_the_sums_of_its_tally(monkeypatch: pytest.MonkeyPatch) -> None:
    """_MAX_TABLE_SUMS and _MAX_EACH_SUMS refuse nothing: past both a modulus is not compared."""
    table, each = table_sums(300, 17), each_sums(300, 17)
    assert modulus_allowed(table, each - 1, monkeypatch)
    assert modulus_allowed(table - 1, each, monkeypatch)
    assert not modulus_allowed(table - 1, each - 1, monkeypatch)


def test_a_check_in_has_so_many_exchanges_and_the_next_one_goes_on() -> None:
    """_MAX_EXCHANGES after the first one: an aggregator that always asks more must wait."""

    class Asked(DeviceRunner):
        exchanges = 0

        async def _exchange(self, reports: tuple[bytes, ...]) -> Response:
            assert len(reports) == min(self.exchanges, 1)
            self.exchanges += 1
            self._outbox.acknowledge(bytes(32), AckStatus.ACCEPTED)
            self._outbox.put(bytes(32), b"report")
            return Response(retry_after_ms=self.exchanges)

    async def check_in() -> tuple[int, int, int]:
        async with aio.insecure_channel("127.0.0.1:1") as channel:
            runner = Asked(cast(Any, None), Identity(b"d", bytes(16)), channel)
            wait_ms = await runner.check_in_once()
            return runner.exchanges, wait_ms, runner.unacknowledged

    assert asyncio.run(check_in()) == (
        observable.MAX_EXCHANGES + 1,
        observable.MAX_EXCHANGES + 1,
        1,
    )
