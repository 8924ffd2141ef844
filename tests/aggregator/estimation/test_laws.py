"""Covariances of estimated shares are exact: sample and randomizer, by enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.estimation import ReportsLaw, TalliedReports, share_covariance
from askance_aggregator.families import (
    CodebookFamily,
    family_of,
    hypercube_response,
    k_ary_response,
    random_codebook,
    randomized_response,
    subset_selection,
)
from askance_aggregator.families.random_codebook import LENGTH
from askance_aggregator.learners import Question
from askance_aggregator.queries import among, category, vector
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.queries import Bit, Category, Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel, Randomizer
from askance_client.randomizers.subset_selection import SubsetSelection
from askance_simulation.families import draw

TRUTH = (0.5, 0.3, 0.15, 0.05)


def report_laws(randomizer: Randomizer) -> list[dict[tuple[int, ...], Fraction]]:
    """Return for each level the law of the cells that are in its report."""
    laws: list[dict[tuple[int, ...], Fraction]] = []
    for level in range(randomizer.levels):
        law: dict[tuple[int, ...], Fraction] = {}
        for report in family_of(randomizer).alphabet():
            rows = np.frombuffer(report, dtype=np.uint8)[np.newaxis]
            cells = tuple(np.flatnonzero(family_of(randomizer).tally(rows)).tolist())
            law[cells] = chance(randomizer, level, cells)
        laws.append(law)
    return laws


def chance(randomizer: Randomizer, level: int, cells: tuple[int, ...]) -> Fraction:
    """Compute P[the report has these cells] from the two rates alone."""
    rates = family_of(randomizer).inclusion(0)
    assert rates is not None
    if not isinstance(randomizer, SubsetSelection):
        return rates.own if cells == (level,) else rates.other
    rest, size = randomizer.cells - 1, randomizer.size
    choose = np.array([1.0])  # number of sets, by Pascal's rule
    for _ in range(rest):
        choose = np.convolve(choose, [1, 1])
    with_own = level in cells
    share = rates.own if with_own else 1 - rates.own
    return share / int(choose[size - with_own])


@pytest.mark.parametrize(
    "randomizer",
    [k_ary_response(4, 10**9), subset_selection(4, 3 * 10**8), SubsetSelection(4, 3, 2**63)],
    ids=["k-ary", "subset", "subset of three"],
)
def test_the_covariance_of_shares_is_that_of_the_enumerated_law(randomizer: Randomizer) -> None:
    family, size = family_of(randomizer), randomizer.levels
    mean, second = np.zeros(size), np.zeros((size, size))
    for part, law in zip(TRUTH, report_laws(randomizer), strict=True):
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        for cells, share in law.items():
            counts = [int(cell in cells) for cell in range(size)]
            told = np.array([float(one) for one in family.frequencies(counts, 1)])
            mean += part * float(share) * told
            second += part * float(share) * np.outer(told, told)
    assert mean == pytest.approx(TRUTH)  # unbiased: so the law is that of the estimates
    found = share_covariance(family, TRUTH)
    assert found == pytest.approx(second - np.outer(mean, mean), rel=1e-9, abs=1e-12)


def test_the_covariance_of_a_table_is_that_of_its_symbols() -> None:
    half = COIN_SPACE // 2
    table = ((half, half // 2, half // 2), (half // 2, half, half // 2))
    family = family_of(Channel(table))
    mean, second, truth = np.zeros(2), np.zeros((2, 2)), (0.7, 0.3)
    for symbol in range(3):
        counts = [int(symbol == place) for place in range(3)]
        told = np.array([float(one) for one in family.frequencies(counts, 1)])
        share = sum(p * row[symbol] / COIN_SPACE for p, row in zip(truth, table, strict=True))
        mean += share * told
        second += share * np.outer(told, told)
    found = share_covariance(family, truth)
    assert found == pytest.approx(second - np.outer(mean, mean))


def test_the_randomized_response_of_a_bit_has_warners_variance() -> None:
    e = np.exp(1.0)
    found = share_covariance(family_of(randomized_response(10**9)), (0.8, 0.2))
    assert found is not None
    assert found[1, 1] == pytest.approx(0.2 * 0.8 + e / (e - 1) ** 2)


def test_shares_of_another_number_of_levels_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="expected 4, one per level, got 3"):
        share_covariance(family_of(k_ary_response(4, 10**9)), (0.5, 0.3, 0.2))


def test_a_law_has_the_same_values_and_wider_intervals_at_a_smaller_level() -> None:
    schema = Schema("one", 1, c=Category(["a", "b", "c", "d"]))
    question = Question(category(schema["c"]))
    randomizer = k_ary_response(4, 10**9)
    counts = np.array([400, 300, 200, 100])
    law = ReportsLaw(question, (TalliedReports(question, randomizer, counts, 1000),), 0.05)
    wide, narrow = law.at(0.001), law.at(0.05)
    assert wide.values == narrow.values
    assert wide.lows[0] < narrow.lows[0]
    assert wide.highs[0] > narrow.highs[0]
    last_look = ReportsLaw(question, law.reports, 0.05, look_share=0.5)
    assert last_look.at(0.05) == law.at(0.025)
    found = law.covariance(TRUTH)
    assert found is not None
    whole = share_covariance(family_of(randomizer), TRUTH)
    assert found * 1000 == pytest.approx(whole)


REAL = Schema("numbers", 1, x=Real(-1, 1, 4), y=Real(-1, 1, 4), z=Real(-1, 1, 4))
PATTERNS = {  # shares of users, by the signs of three components
    (1, 1, 1): 0.4,
    (1, -1, 1): 0.3,
    (-1, -1, 1): 0.2,
    (-1, 1, -1): 0.1,
}


@pytest.mark.parametrize(
    ("nano", "pairs_agree"),
    [
        (10**9, False),  # patterns at a distance of 0 and 1 cancel out
        (3 * 10**9, True),
    ],
)
def test_the_variance_of_a_sum_of_components_is_that_of_all_reports(
    nano: int, pairs_agree: bool
) -> None:
    """The mean products are stated exactly, so that the bound is the variance itself."""
    weights = np.array([0.5, -2.0, 1.0])
    randomizer = hypercube_response(3, nano)
    family, mean, square = family_of(randomizer), 0.0, 0.0
    for signs, share in PATTERNS.items():
        own = sum(1 << 2 - place for place, sign in enumerate(signs) if sign > 0)
        for report in family.alphabet():
            chance = share * float(probability(randomizer, own, report))
            counts = family.tally(np.frombuffer(report, dtype=np.uint8)[np.newaxis])
            found = 2 * np.array([float(one) for one in family.frequencies(counts, 1)]) - 1
            mean += chance * float(weights @ found)
            square += chance * float(weights @ found) ** 2
    vectors = np.array(list(PATTERNS), dtype=float)
    shares = np.array(list(PATTERNS.values()))
    means, products = shares @ vectors, vectors.T @ (shares[:, None] * vectors)
    assert mean == pytest.approx(weights @ means)
    question = Question(vector([REAL.x, REAL.y, REAL.z]))
    tallied = TalliedReports(question, randomizer, np.array([500, 500, 500]), 1_000)
    law = ReportsLaw(question, (tallied,), 0.05).sum_law(weights, means, (products, products))
    assert law is not None
    assert law.variance * 1_000 == pytest.approx(square - mean**2)
    wide = (products - 0.1, products + 0.1)
    more = ReportsLaw(question, (tallied,), 0.05).sum_law(weights, means, wide)
    assert more is not None
    assert (more.variance > law.variance) is pairs_agree


def test_the_reports_of_a_codebook_have_the_second_moments_that_are_stated() -> None:
    """20,000 reports of one vector; bounds are five standard errors of their own products."""
    book = random_codebook(3, 1_000, 4 * 10**9)
    family, own = CodebookFamily(book), np.array([600, -300, 200])
    coins = np.random.default_rng(5).integers(0, 2**64, (20_000, book.coins), dtype=np.uint64)
    reports = draw(book, np.repeat(own[None], len(coins), axis=0), coins)
    found = family.vectors(reports) * (book.radius / LENGTH / family.agreement)
    rates = family.vector_rates(1_000.0)
    stated = rates.pair * np.outer(own, own)
    np.fill_diagonal(stated, rates.own + rates.square * own.astype(float) ** 2)
    seen = found[:, :, None] * found[:, None, :]
    errors = seen.std(axis=0) / np.sqrt(len(seen))
    assert (np.abs(seen.mean(axis=0) - stated) <= 5 * errors).all()
    assert np.abs(found).max() <= rates.reach * (1 + 1e-9)


def test_a_group_s_scores_have_its_share_and_mean() -> None:
    """Reports are true in 1/2: .1 of users with 3 and .3 with 7 make .275 and .325 of them."""
    schema = Schema("one", 1, x=Real(3, 7), member=Bit())
    question = Question(among(schema["x"], schema["member"]))
    half, part = COIN_SPACE // 2, COIN_SPACE // 4
    table = Channel(tuple(tuple(half if i == j else part for j in range(3)) for i in range(3)))
    tallied = TalliedReports(question, table, np.array([275, 325, 400]), 1_000)
    scored = ReportsLaw(question, (tallied,), 0.05).scored()
    assert scored is not None
    assert scored.presences @ scored.shares == pytest.approx(0.4)
    assert scored.numbers @ scored.shares == pytest.approx(0.3 * 7 + 0.1 * 3)
