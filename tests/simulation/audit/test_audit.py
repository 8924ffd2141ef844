"""An audit's bounds hold except with a stated chance, and sound devices raise no alarm."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from askance_aggregator.families import (
    best_for,
    family_of,
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    random_codebook,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_client.codec import encode_report
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.messages import Reason, Refusal, Report
from askance_client.randomizers import KaryResponse, Randomizer, SubsetSelection
from askance_simulation.audit import (
    Audit,
    AuditFleet,
    Case,
    MemoryLedgers,
    Message,
    Pair,
    Refused,
    StreamCoins,
    Subject,
    audit,
    audit_devices,
    audit_families,
    compare,
    exposures,
    messages,
    of_cells,
    of_many,
    stated,
    subject_of,
    subjects,
)
from askance_simulation.audit.losses import detectable, improbable, losses_at_least
from askance_simulation.randomness import Seed

ALPHA = 1e-6
NAT = 10**9
WARNER = of_cells("response", randomized_response(NAT))


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.9, 0.1), (0.02, 0.01), (0.3, 0.9)])
@pytest.mark.parametrize("n", [5, 40])
def test_a_bound_is_above_the_truth_with_at_most_its_chance(p: float, q: float, n: int) -> None:
    """Exactly: every pair of counts, with its probability."""
    counts = np.arange(n + 1)
    here, there = (grid.ravel() for grid in np.meshgrid(counts, counts))
    wrong = losses_at_least(here, there, (n, n), 0.1) > log(p / q)
    chance = binom.pmf(here, n, p) * binom.pmf(there, n, q)
    assert chance[wrong].sum() <= 0.1


@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("n", [1, 17, 400])
def test_shares_as_stated_are_called_improbable_with_at_most_the_chance(
    share: float, n: int
) -> None:
    """Exactly: every count, with its probability; and what cannot be is always improbable."""
    counts = np.arange(n + 1)
    called = improbable(counts, n, np.full(n + 1, share), 0.05)
    chance = binom.pmf(counts, n, share)
    assert chance[called].sum() <= 0.05
    assert called[chance == 0].all()


def test_what_is_detectable_is_detected_nine_times_in_ten() -> None:
    """2,000 audits by counts alone, at the loss that was named and at half of the way to it."""
    n, alpha, rng = (5000, 5000), 1e-8, np.random.default_rng(1)
    loss = detectable(1.0, 0.7, n, alpha)
    found = {}
    for told in (loss, (1 + loss) / 2):
        here = rng.binomial(n[0], 0.7, 2000)
        there = rng.binomial(n[1], 0.7 * np.exp(-told), 2000)
        found[told] = np.mean(losses_at_least(here, there, n, alpha) > 1.0)
    assert found[loss] > 0.9
    assert found[(1 + loss) / 2] < 0.9
    assert detectable(9.0, 0.7, n, alpha) == inf  # (a share of 1 in 10,000 is not seen)


@given(st.binary(max_size=300), st.binary(min_size=32, max_size=32), st.integers(0, 2**62))
def test_a_report_is_a_symbol_in_a_frame(symbol: bytes, digest: bytes, charged: int) -> None:
    report = Message.of(encode_report(Report(digest, symbol, charged, 2 * charged)))
    assert (report.symbol, report.charged) == (symbol, charged)
    other = Message.of(encode_report(Report(digest, symbol + b"x", charged, 2 * charged)))
    assert other.frame == report.frame
    dearer = Message.of(encode_report(Report(digest, symbol, charged + 1, 2 * charged)))
    assert dearer.frame != report.frame


def test_what_has_no_symbol_is_all_frame() -> None:
    refusal = encode_report(Report(bytes(32), Refusal(Reason.EXPIRED, "no"), 0, 0))
    assert Message.of(refusal) == Message(b"", (refusal, b""))
    for broken in (b"\x12\x05ab", b"\x0b", b"\xff" * 12, b"\x80"):
        assert Message.of(broken) == Message(b"", (broken, b""))
    assert Message.of(b"\xff").charged is None


def test_a_length_in_another_form_is_frame() -> None:
    """Two bytes for a length below 128 say something that the symbol does not."""
    assert Message.of(b"\x12\x01a").frame == (b"", b"")
    assert Message.of(b"\x12\x81\x00a") == Message(b"a", (b"\x12\x81\x00", b""))


@given(st.binary(max_size=60))
def test_any_bytes_can_be_taken_apart_and_lose_nothing(data: bytes) -> None:
    message = Message.of(data)
    before, after = message.frame
    assert data.startswith(before)
    assert data.endswith(message.symbol + after)


@pytest.mark.parametrize(
    "randomizer",
    [
        randomized_response(NAT),
        k_ary_response(300, NAT),
        subset_selection(5, NAT),
        subset_selection(40, NAT),
    ],
)
def test_statements_are_the_randomizers_own_probabilities(randomizer: Randomizer) -> None:
    """Shares of symbols sum to one; of cells to how many there are, and one for the set's size."""
    law = {0: Fraction(1, 4), randomizer.levels - 1: Fraction(3, 4)}
    shares = stated(randomizer, law).shares
    if isinstance(randomizer, SubsetSelection) and randomizer.cells > 5:
        assert shares.sum() == pytest.approx(randomizer.size + 1)
        assert shares[-2] > shares[0] > shares[1]
    else:
        assert shares.sum() == pytest.approx(1)
        assert shares[-1] == 0
    if isinstance(randomizer, KaryResponse):
        assert shares[0] == pytest.approx((randomizer.own / 4 + randomizer.other * 3 / 4) / 2**64)


@pytest.mark.parametrize(
    "randomizer",
    [
        subset_selection(9, NAT),
        subset_selection(30, 3 * NAT),
        signed_subset_selection(4, NAT),
        signed_subset_selection(9, 3 * NAT),
        signed_subset_selection(1, NAT),
        hypercube_response(7, NAT),
        linear_hashing(30, NAT),
    ],
)
def test_sights_have_the_chances_that_their_symbols_have(randomizer: Randomizer) -> None:
    """Exactly: every symbol of a small alphabet, with its probability."""
    law = {0: Fraction(1, 2), 1: Fraction(1, 8), randomizer.levels - 1: Fraction(3, 8)}
    sights = of_many(randomizer, law)
    chances = np.zeros(len(sights.shares))
    for symbol in family_of(randomizer).alphabet():
        chance = sum(p * probability(randomizer, level, symbol) for level, p in law.items())
        chances += float(chance) * sights.count([symbol])
    assert chances == pytest.approx(sights.shares, abs=1e-9)
    assert sights.count([b"", bytes(randomizer.width + 1)])[-1] == 0


LARGER: dict[str, Callable[[int], Randomizer]] = {
    "a long pattern": partial(hypercube_response, 70),
    "a short pattern": partial(hypercube_response, 3),
    "directions": partial(random_codebook, 20, 4),
    "hashed cells": partial(linear_hashing, 1000),
    "a sign and a row": partial(hadamard_sign, 20),
    "signed sets": partial(signed_subset_selection, 60),
    "sets": partial(subset_selection, 200),
}


@pytest.mark.parametrize("reports", [250, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LARGER)
def test_sound_devices_of_the_larger_families_raise_no_alarm(name: str, reports: int) -> None:
    """At ALPHA."""
    subject = subject_of(name, LARGER[name](NAT))
    found = audit_devices(
        subject, StreamCoins(Seed.of(0) / name), MemoryLedgers(), reports=reports, alpha=ALPHA
    )
    assert found.alarms == ()
    assert found.goodness.statements > 0


@pytest.mark.parametrize("name", LARGER)
def test_larger_families_are_held_against_what_is_stated(name: str) -> None:
    """At n = 1000, eps = 4: devices that answer for another record depart, in every family."""
    subject = subject_of(name, LARGER[name](4 * NAT))
    fleet = AuditFleet(subject, StreamCoins(Seed.of(1)))
    first, last = subject.cases[:2]
    others = [message.symbol for message in messages(fleet.answer(last, 1000))]
    statements = {first.name: stated(subject.randomizer, first.law)}
    assert compare({first.name: others}, statements, ALPHA).departures


LARGEST = [name for name in subjects() if name.endswith(("(64)", "(1024)"))]
"""Families that are audited at smaller sizes as well."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(s, marks=[pytest.mark.slow] if s in LARGEST else []) for s in subjects()],
)
def test_sound_devices_raise_no_alarm(name: str) -> None:
    """At 60 reports of each record; ALPHA."""
    subject = subjects()[name](NAT)
    found = audit_devices(
        subject, StreamCoins(Seed.of(0) / name), MemoryLedgers(), reports=60, alpha=ALPHA
    )
    assert found.alarms == ()
    assert found.low < 1
    assert all(exposure.events > 0 for exposure in found.exposures)


@pytest.mark.parametrize(
    ("epsilon", "seed", "reports"),
    [
        pytest.param("0.1", 1, 100, marks=pytest.mark.slow),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (("1", 2, 100), ("8", 3, 60), ("40", 4, 100))
        ),
    ],
)
def test_sound_devices_raise_no_alarm_at_any_epsilon_and_seed(
    epsilon: str, seed: int, reports: int
) -> None:
    """With so many reports of each record: every verified family, and the planner's choices."""
    coins = StreamCoins(Seed.of(seed))
    for found in audit_families([epsilon], ledgers=MemoryLedgers(), reports=reports, coins=coins):
        assert found.alarms == ()
    for levels in (2, 5, 33, 200):
        subject = of_cells("chosen", best_for(levels, int(float(epsilon) * NAT)))
        chosen = audit_devices(subject, coins, MemoryLedgers(), reports=reports)
        assert chosen.alarms == ()


def black_box(subject: Subject, n: int, seed: int, alpha: float) -> Audit:
    return audit(
        subject.name,
        AuditFleet(subject, StreamCoins(Seed.of(seed))).answer,
        subject.cases,
        subject.pairs,
        {case.name: stated(subject.randomizer, case.law) for case in subject.cases},
        nano_nats=subject.randomizer.loss.nano_nats,
        reports=n,
        alpha=alpha,
    )


@pytest.mark.parametrize("audits", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_false_alarms_are_as_rare_as_is_stated(audits: int) -> None:
    """At alpha = 0.2, n = 100; of 20 (60) audits up to 14 (28) alarm by chance, ALPHA; tight."""
    alarms = sum(bool(black_box(WARNER, 100, seed, 0.2).alarms) for seed in range(audits))
    assert alarms <= binom.isf(ALPHA, audits, 0.2)


def test_the_bound_comes_near_a_loss_that_is_there() -> None:
    """At n = 10,000, a tight table of eps = 1: at least 0.7 is proven, in a seen symbol."""
    ends = black_box(WARNER, 10_000, 7, ALPHA).exposures[0]
    assert 0.7 < ends.low < 1
    assert ends.event.startswith(("symbol", "byte", "bit", "first", "likelihood"))
    assert 1 < ends.detectable < 1.3


def test_events_are_not_tested_on_the_reports_they_were_chosen_from() -> None:
    """In the first half every byte distinguishes two records, in the second none does."""
    telling = {who: [Message(bytes([who, who]), (b"", b""))] * 300 for who in (0, 1)}
    silent = [Message(bytes([byte % 2, 0]), (b"", b"")) for byte in range(300)]
    reports = {"a": telling[0] + silent, "b": telling[1] + silent}
    (found,) = exposures(reports, [Pair("a", "b", 0)], [], ALPHA)
    assert found.events > 0
    assert found.low <= 0
    (swapped,) = exposures(
        {"a": telling[0] * 2, "b": telling[1] * 2}, [Pair("a", "b", 0)], [], ALPHA
    )
    assert swapped.low > 1


def test_an_audit_of_nothing_is_refused() -> None:
    for n, alpha in ((1, ALPHA), (0, ALPHA), (10, 0.0), (10, 1.0)):
        with pytest.raises(InvalidParameter, match="expected"):
            black_box(WARNER, n, 1, alpha)


def test_a_randomizer_that_cannot_be_made_is_refused_and_no_alarm() -> None:
    (first, *_) = audit_families(["60"], ledgers=MemoryLedgers(), reports=2)
    assert isinstance(first, Refused)
    assert "at most" in first.to_json()["refused"]


def test_a_loss_that_devices_do_not_answer_is_refused_and_no_alarm() -> None:
    audits = list(audit_families(["0.000999999"], ledgers=MemoryLedgers(), reports=2))
    assert {type(audit) for audit in audits} == {Refused}
    assert {audit.to_json()["refused"] for audit in audits} == {
        "expected 0.001 nats or more, as devices do"
    }


def test_any_function_can_be_audited() -> None:
    """No device: a function of a record that gives bytes."""
    cases = (Case("no", {"x": 0}, {}), Case("yes", {"x": 1}, {}))

    def tells_all(case: Case, n: int) -> list[bytes]:
        return [b"\x12\x01" + bytes([case.record["x"]])] * n

    found = audit(
        "a leak",
        tells_all,
        cases,
        [Pair("no", "yes", NAT)],
        {},
        nano_nats=0,
        reports=200,
        alpha=ALPHA,
    )
    assert found.alarms
    assert found.exposures[0].counts == (100, 0)
