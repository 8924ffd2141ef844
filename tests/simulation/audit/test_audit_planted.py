"""Defects that peers have had, planted in real devices: an audit of their bytes finds each one.

All by seeds, at alpha = 10^-6 for each audit. n is the number of reports of each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.families import (
    hadamard_sign,
    k_ary_response,
    linear_hashing,
    random_codebook,
    randomized_response,
    subset_selection,
)
from askance_client.codec import decode_report, encode_report
from askance_client.device import Device, ExaminedRequest, RecordWork
from askance_client.device.record_work import Value
from askance_client.ledger import Charge, Ledger, Limits, Overrun
from askance_client.ledger.contract import Compose
from askance_client.messages import Refusal, Request
from askance_client.randomizers import Randomizer, SubsetSelection
from askance_simulation.audit import (
    Audit,
    FileLedgers,
    Maker,
    MemoryLedgers,
    StreamCoins,
    Subject,
    audit_devices,
    of_cells,
)
from askance_simulation.audit.fleet import of_signs
from askance_simulation.audit.promises import AGAIN, CHARGE, FRAME, FREE, FROZEN, RESTARTED
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.randomness import Seed, SeededCoins

NAT = 10**9
Words = tuple[int, ...]
WARNER = of_cells("response", randomized_response(NAT))
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]


def audited(
    subject: Subject, make: Maker | type[RecordWork], n: int = 1000, seed: int = 1
) -> Audit:
    if isinstance(make, type) and issubclass(make, RecordWork):
        make = at_work(make)
    return audit_devices(subject, StreamCoins(Seed.of(seed)), MemoryLedgers(), make=make, reports=n)


def at_work(work: type[RecordWork]) -> type[Device]:
    """A device that does such work on its record."""

    class Planted(Device):
        def _work(self, asked: Sequence[ExaminedRequest]) -> RecordWork:
            return work(self._record, self._coins, asked)

    return Planted


def promises(audit: Audit) -> set[str]:
    return {broken.promise for broken in audit.broken}


class TrueItemFirst(RecordWork):
    """Sends a set as a list of its cells; the own one comes first."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, coins = self._level(request, value, words)
        bitmap = request.randomizer.randomize(level, coins)
        cells = [v for v in range(8 * len(bitmap)) if bitmap[v // 8] >> (7 - v % 8) & 1]
        return bytes(sorted(cells, key=lambda cell: cell != level))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_true_item_that_comes_first_is_found(seed: int) -> None:
    """At n = 1000 the set itself is sound; its order reveals more than e^eps in the first byte."""
    subject = of_cells("sets", subset_selection(10, NAT))
    ends, alike, _ = audited(subject, TrueItemFirst, seed=seed).exposures
    assert ends.alarm
    assert ends.low > 1.2
    assert alike.low <= 0  # what is not asked about stays hidden even so


class TrueIndexFirst(RecordWork):
    """Sends sorted indices with the own one in front."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, coins = self._level(request, value, words)
        cells = request.randomizer.randomize(level, coins)
        return bytes(sorted(cells, key=lambda cell: cell != level))


def test_a_true_index_that_comes_first_is_found() -> None:
    """At n = 2000, eps = 1.99: 24 of 200 cells travel as 24 bytes, sound while they are sorted."""
    subject = of_cells("sets", SubsetSelection(200, 24, 1 << 63))
    assert (subject.randomizer.width, audited(subject, Device).alarms) == (24, ())
    ends = audited(subject, TrueIndexFirst, n=2000).exposures[0]
    assert ends.alarm
    assert ends.low > 2.3


class NeverTheLast(RecordWork):
    """Off by one: draws among one cell fewer than there are."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, coins = self._level(request, value, words)
        symbol = request.randomizer.randomize(level, coins)
        last = request.randomizer.levels - 1
        return symbol if symbol[0] < last else bytes([last - 1])


@pytest.mark.parametrize("seed", SEEDS)
def test_an_item_that_is_never_emitted_is_found(seed: int) -> None:
    """At n = 1000: at eps = 1 the last of 17 cells is reported with probability 0.053 by others."""
    audit = audited(of_cells("k-ary", k_ary_response(17, NAT)), NeverTheLast, seed=seed)
    silent = {gone.case for gone in audit.goodness.departures if gone.sight == "symbol 10"}
    assert silent == {"the first cell", "the last cell", "no answer", "no answer, other"}
    assert all(gone.seen == 0 for gone in audit.goodness.departures if gone.sight == "symbol 10")


def another(randomizer: Randomizer) -> type[RecordWork]:
    class Other(RecordWork):
        """Randomizes by another table than the one that was sent and is charged."""

        def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
            level, coins = self._level(request, value, words)
            return randomizer.randomize(level, coins)

    return Other


@pytest.mark.parametrize(
    ("tenths", "n"), [(30, 2_000), pytest.param(22, 15_000, marks=pytest.mark.slow)]
)
def test_a_coin_that_flips_too_seldom_departs_from_what_is_stated(tenths: int, n: int) -> None:
    """For eps = 2 the truth is kept in 0.881 of reports; eps' = 3 and 2.2 keep 0.953 and 0.900."""
    subject = of_cells("response", randomized_response(2 * NAT))
    device = another(randomized_response(tenths * NAT // 10))
    assert audited(subject, device, n=n).goodness.departures


@pytest.mark.slow
def test_a_tenth_more_than_is_charged_is_a_proven_loss() -> None:
    """At n = 30,000 and eps = 2: half of the reports prove more than 2 for a loss of 2.2."""
    subject = of_cells("response", randomized_response(2 * NAT))
    ends = audited(subject, another(randomized_response(22 * NAT // 10)), n=30_000)
    assert ends.exposures[0].alarm
    assert ends.exposures[0].detectable < 2.2
    sound = audited(subject, Device, n=30_000)
    assert sound.alarms == ()
    assert sound.low > 1.8


class ForgettingLedger(MemoryLedger):
    """Charges, but neither finds a stored report nor freezes a symbol."""

    def stored(self, request_digest: bytes) -> bytes | None:
        return None

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        return compose(charge.symbol, charge.nano_nats, charge.nano_nats, 1)


def forgetful(*, ledger: Ledger, **parts: Any) -> Device:
    """Make a device that draws anew for each answer."""
    return Device(ledger=ForgettingLedger(), **parts)


def without_memory(*, ledger: Ledger, **parts: Any) -> Device:
    """Make a device whose ledger is lost with its process."""
    return Device(ledger=MemoryLedger(), **parts)


def test_a_stored_report_that_is_ignored_is_found() -> None:
    assert promises(audited(WARNER, forgetful, n=100)) == {AGAIN, RESTARTED, FROZEN, FREE}


def test_a_ledger_that_does_not_outlive_its_process_is_found(tmp_path: Path) -> None:
    assert promises(audited(WARNER, without_memory, n=100)) == {RESTARTED}
    with FileLedgers(tmp_path) as files:
        kept = audit_devices(WARNER, StreamCoins(Seed.of(1)), files, reports=100)
        lost = audit_devices(
            WARNER, StreamCoins(Seed.of(1)), files, make=without_memory, reports=100
        )
    assert kept.alarms == ()
    assert promises(lost) == {RESTARTED}


class Thawing(MemoryLedger):
    """Keeps reports by request, and freezes no question."""

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        return super().commit(charge._replace(question=charge.request_digest), limits, compose)


def test_a_question_that_is_answered_anew_in_another_study_is_found() -> None:
    def thawed(*, ledger: Ledger, **parts: Any) -> Device:
        if ledger.totals(b"", 0).life == 0:
            ledgers.append(Thawing())
        return Device(ledger=ledgers[-1], **parts)

    ledgers: list[Thawing] = []
    assert promises(audited(WARNER, thawed, n=100)) >= {FROZEN, FREE}
    assert AGAIN not in promises(audited(WARNER, thawed, n=100))


class StuckCoins:
    """Coins of which some bits are always as they are given."""

    def __init__(self, coins: StreamCoins, ones: int, zeros: int) -> None:
        self.coins, self.ones, self.zeros = coins, ones, zeros

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return tuple((word | self.ones) & ~self.zeros for word in self.coins.words(request, count))


@pytest.mark.parametrize(
    "bits", [pytest.param((1 << 64) - 1, marks=pytest.mark.slow), 1 << 63, 1 << 62]
)
def test_a_stuck_coin_is_found(bits: int) -> None:
    """At n = 1000: all bits of a coin, or one of the first two."""
    for ones, zeros in ((bits, 0), (0, bits)):
        coins = StuckCoins(StreamCoins(Seed.of(4)), ones, zeros)
        assert audit_devices(WARNER, coins, MemoryLedgers(), reports=1000).goodness.departures


def test_devices_that_draw_the_same_coins_are_found() -> None:
    """At n = 1000: a million devices from one image, with one seed."""
    coins = SeededCoins(Seed.of(5)).at(0)
    assert audit_devices(WARNER, coins, MemoryLedgers(), reports=1000).goodness.departures


class NeverFlips(RecordWork):
    """The chance of the truth, 1 - e^-eps in floats, was rounded to 1."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, _ = self._level(request, value, words)
        return bytes([level])


@pytest.mark.parametrize("nats", [4, 40])
def test_certainty_is_found_at_every_epsilon(nats: int) -> None:
    """At n = 4000, reports prove a loss of more than 4.

    For a loss of 40 no number of reports would; coins at the ends do.
    """
    subject = of_cells("response", randomized_response(nats * NAT))
    audit = audited(subject, NeverFlips, n=4000)
    assert len([broken for broken in audit.broken if "coins" in broken.promise]) == 4
    assert audit.exposures[0].alarm == (nats == 4)
    assert audited(subject, Device).alarms == ()


class OneCoinForAll(RecordWork):
    """Device that draws the hash, or the row, and the value by the same coin."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, coins = self._level(request, value, words)
        return request.randomizer.randomize(level, [coins[0]] * len(coins))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "randomizer", [linear_hashing(1024, NAT), hadamard_sign(1024, NAT)], ids=lambda r: r.name
)
def test_a_hash_that_tells_its_values_coin_is_found(randomizer: Randomizer, seed: int) -> None:
    """At n = 1000: half of the hashes are sent with the truth only; no symbol is seen twice."""
    subject = of_cells("hashed", randomizer)
    assert any(exposure.alarm for exposure in audited(subject, OneCoinForAll, seed=seed).exposures)
    assert audited(subject, Device, seed=seed).alarms == ()


class AlwaysNear(RecordWork):
    """Device that reports one of the near codes whatever the second coin says."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, (seed, _, rank) = self._level(request, value, words)
        return request.randomizer.randomize(level, [seed, 0, rank])


class RanksBackwards(RecordWork):
    """Device whose ranking begins with the code that is farthest."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        assert isinstance(value, tuple)
        return super()._randomize(request, digest, tuple(-part for part in value), words)


class NearestOnly(RecordWork):
    """Device that always draws the first rank of its side: half of the ranks never come."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, (seed, side, _) = self._level(request, value, words)
        return request.randomizer.randomize(level, [seed, side, 0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "make",
    [
        AlwaysNear,
        pytest.param(RanksBackwards, marks=pytest.mark.slow),
        pytest.param(NearestOnly, marks=pytest.mark.slow),
    ],
)
def test_a_codebook_that_is_drawn_from_otherwise_is_found(make: Maker, seed: int) -> None:
    """At n = 400: no seed is seen twice, so that ranks are compared with what is stated."""
    subject = of_signs("directions", random_codebook(20, 4, NAT))
    assert audited(subject, make, n=400, seed=seed).goodness.departures
    assert audited(subject, Device, n=400, seed=seed).alarms == ()


class DefaultByRecord(RecordWork):
    """Device whose missing answer defaults to another field of its record."""

    def _value(self, request: Request) -> Value:
        record = self._record.load()
        return super()._value(request) if record.present["answer"] else record.values["other"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_default_that_depends_on_the_record_is_found(seed: int) -> None:
    """At n = 1000: within eps, but records without an answer must not differ at all."""
    ends, alike, _ = audited(WARNER, DefaultByRecord, seed=seed).exposures
    assert not ends.alarm
    assert alike.alarm


class LongerForTheLast(RecordWork):
    """Device with one byte more for one cell."""

    def _randomize(self, request: Request, digest: bytes, value: Value, words: Words) -> bytes:
        level, coins = self._level(request, value, words)
        last = level == request.randomizer.levels - 1
        return request.randomizer.randomize(level, coins) + bytes(last)


def test_a_length_that_tells_is_found() -> None:
    """At n = 1000 the length reveals the last cell."""
    audit = audited(of_cells("k-ary", k_ary_response(17, NAT)), LongerForTheLast)
    assert audit.exposures[0].alarm
    assert audit.exposures[0].low > 3
    assert {gone.sight for gone in audit.goodness.departures} >= {"no symbol"}


class ChargesByRecord(Device):
    """A nano-nat less for one cell."""

    def answer(self, payload: bytes) -> bytes:
        report = decode_report(super().answer(payload))
        less = self._record.load().values["answer"]
        assert isinstance(less, int)
        charged = max(0, report.charged_nano_nats - less)
        return encode_report(report._replace(charged_nano_nats=charged))


class SaysMore(Device):
    """A field that this version does not know, after all others."""

    def answer(self, payload: bytes) -> bytes:
        value = self._record.load().values["answer"]
        assert isinstance(value, int)
        return super().answer(payload) + bytes([15 << 3, value])


class RefusesOne(Device):
    """A refusal that depends on the record."""

    def answer(self, payload: bytes) -> bytes:
        if self._record.load().values["answer"] == 0:
            return super().answer(payload)
        report = decode_report(super().answer(payload))
        return encode_report(report._replace(outcome=Refusal(1, "no")))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [ChargesByRecord, SaysMore, RefusesOne])
def test_anything_but_the_symbol_that_depends_on_the_record_is_found(make: Maker) -> None:
    """At n = 100: without any chance."""
    audit = audited(WARNER, make, n=100)
    assert FRAME in promises(audit)
    assert (CHARGE in promises(audit)) == (make is ChargesByRecord)
