"""Order, timing, batches and retries that an aggregator observes are decided in one module."""

from __future__ import annotations

import ast
import asyncio
import secrets
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

import pytest

from askance_client.service import observable
from askance_client.service.identity import Identity
from askance_client.service.observable import (
    asked_wait_ms,
    batches,
    connection_of,
    on_grid,
    ordered,
    phase_times,
    record_times,
    shuffled,
    system_jitter,
    time_limit_ms,
)

SERVICE = Path(observable.__file__).parent
OTHERS = [file for file in sorted(SERVICE.glob("*.py")) if file.name != "observable.py"]


def test_the_order_is_that_of_device_ids_whatever_order_members_come_in() -> None:
    members = [Identity(bytes([number]), bytes(16)) for number in (7, 255, 0, 128)]
    expected = sorted(members, key=lambda member: member.device_id)
    assert ordered(members, lambda member: member) == expected
    assert ordered(members[::-1], lambda member: member) == expected


def test_batches_keep_the_order_and_leave_nothing_out() -> None:
    assert batches("abcde", 2) == [("a", "b"), ("c", "d"), ("e",)]
    assert batches("", 2) == []
    assert [connection_of(position, 3) for position in range(5)] == [0, 1, 2, 0, 1]


def test_every_order_of_reports_is_drawn_by_as_many_draws() -> None:
    """The 4! outcomes of the draws lead to the 4! orders, once each."""
    found = set()
    for drawn in product(range(4), range(3), range(2)):
        ahead = iter(zip((3, 2, 1), drawn, strict=True))

        def jitter(bound: int, ahead: Iterator[tuple[int, int]] = ahead) -> int:
            expected, number = next(ahead)
            assert bound == expected
            return number

        found.add(tuple(shuffled("abcd", jitter)))
    assert found == set(permutations("abcd"))


def test_system_jitter_includes_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda end: end - 1)
    assert system_jitter(7) == 7
    assert {system_jitter(0) for _ in range(3)} == {0}


def test_a_wait_that_was_asked_for_is_bounded_and_spread() -> None:
    assert asked_wait_ms(10, 100, lambda bound: bound) == 20
    assert asked_wait_ms(10**9, 100, lambda bound: bound) == 200
    assert time_limit_ms(1_000) == 500


@pytest.mark.parametrize(("steps", "periods"), [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4)])
def test_work_is_released_at_the_first_multiple_at_which_it_is_done(
    steps: int, periods: int
) -> None:
    """Work takes a number of turns of the event loop; a period of the grid takes two."""
    waited: list[float] = []

    async def work() -> str:
        for _ in range(2 * steps - 1):
            await asyncio.sleep(0)
        return "done"

    async def sleep(milliseconds: float) -> None:
        waited.append(milliseconds)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert asyncio.run(on_grid(work(), 250, sleep, lambda: sum(waited))) == "done"
    assert waited == [250] * periods


def test_a_wait_that_ended_late_does_not_delay_the_next_multiple() -> None:
    """A thread that held Python's lock delayed all later multiples, and its work is a record's."""
    now, waited = [0.0], list[float]()

    async def work() -> str:
        for _ in range(4):
            await asyncio.sleep(0)
        return "done"

    async def sleep(milliseconds: float) -> None:
        waited.append(milliseconds)
        now[0] += milliseconds + (7 if len(waited) == 1 else 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert asyncio.run(on_grid(work(), 250, sleep, lambda: now[0])) == "done"
    assert waited == [250, 243, 250]


def test_times_of_work_on_records_are_quarters_of_the_grid_by_weight() -> None:
    """At 256 units per ms; slots of a fifth of a quarter for the heaviest of one quarter."""
    assert record_times(1_000, 0) == (1, 500, 750)
    assert record_times(1_000, 22) == (1, 500, 750)
    assert record_times(1_000, 64_000 - 1) == (500, 500, 750)
    assert record_times(1_000, 64_000) == (501, 750, 1_250)
    assert record_times(1_000, 5 << 18) == (10_241, 5_500, 10_750)
    assert record_times(100, 0) == (1, 100, 150)  # a step is 50 ms at least
    assert record_times(8_000, 0) == (1, 4_000, 6_000)
    assert phase_times(1_000) == (2_000, 250)


@pytest.mark.parametrize("file", OTHERS, ids=lambda file: str(file.name))
def test_no_other_module_orders_waits_or_draws(file: Path) -> None:
    assert list(decisions(ast.parse(file.read_text(encoding="utf-8")))) == []


def test_the_walk_finds_decisions() -> None:
    source = "import random\nfrom time import sleep\nsorted(a)\na.sort()\nasyncio.sleep(1)\n"
    assert len(list(decisions(ast.parse(source)))) == 5
    assert list(decisions(ast.parse("asyncio.sleep(0)"))) == []


def decisions(tree: ast.Module) -> list[str]:
    """List the calls and imports that sort, shuffle, wait or draw at random."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names if name.name in ("random", "secrets")]
            case ast.ImportFrom(module="random" | "secrets" | "time" as module):
                found.append(module)
            case ast.Call(func=ast.Name(id="sorted" | "shuffle" as name)):
                found.append(name)
            case ast.Call(func=ast.Attribute(attr="sort" | "shuffle" as name)):
                found.append(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"),
                args=[ast.Constant(value=0)],
            ):
                pass  # a turn of the event loop
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep")):
                found.append("asyncio.sleep")
            case _:
                pass
    return found
