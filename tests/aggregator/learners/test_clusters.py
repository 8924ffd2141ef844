"""k-means and mixtures: where they start, what a device computes, what they find."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Batch,
    Clusters,
    GaussianMixture,
    clusters_schema,
    find,
    gaussian_mixture,
    hypothesis_from_json,
    k_means,
)
from askance_aggregator.learners.centres import scaled, scaled_rows
from askance_aggregator.learners.cluster_rounds import Start, Step, start_question
from askance_aggregator.learners.gaussian_mixture import responsibilities
from askance_aggregator.learners.k_means import _sums, nearest
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import rehearse, settled
from askance_aggregator.queries import (
    category,
    encode_columns,
    evaluate_columns,
    evaluate_vectors,
    real,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Category,
    Integer,
    Real,
    Schema,
)

SCHEMA = Schema("homes", 1, rooms=Integer(0, 20), rent=Real(0, 1000))
RNG = np.random.default_rng(9)
GRID: dict[str, Any] = {
    "rooms": [rooms for rooms, _ in product(range(21), range(41))],
    "rent": [25.0 * step for _, step in product(range(21), range(41))],
}
CENTRES = np.array([[-0.5, -0.5], [0.5, -0.25], [0.25, 0.75], [0.5, 0.5]])


def blobs(n: int = 3_000) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Make homes of two kinds."""
    kind = RNG.integers(0, 2, n)
    rooms = np.clip(np.rint(RNG.normal(np.array([4, 14])[kind], 1.0)), 0, 20)
    rent = np.clip(RNG.normal(np.array([250, 700])[kind], 50), 0, 1000)
    return {"rooms": rooms, "rent": rent}, kind


def bells(k: int) -> GaussianMixture:
    means = tuple(tuple(row) for row in CENTRES[:k].tolist())
    weights = tuple(np.arange(1, k + 1) / (k * (k + 1) / 2))
    return GaussianMixture(SCHEMA, weights, means, tuple([0.05, 0.2, 0.1, 0.4][:k]))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_device_finds_its_nearest_centre(k: int) -> None:
    columns = encode_columns(SCHEMA, GRID)
    clusters = Clusters(SCHEMA, tuple(tuple(row) for row in CENTRES[:k].tolist()), (1 / k,) * k)
    cell = evaluate_columns(category(nearest(scaled(SCHEMA), CENTRES[:k])), columns)
    distances = clusters.distances(columns)
    assert distances[np.arange(len(cell)), cell] == pytest.approx(distances.min(axis=1))
    assert (clusters.predict(columns) == cell).all()


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_device_computes_its_responsibilities(k: int) -> None:
    columns = encode_columns(SCHEMA, GRID)
    mixture = bells(k)
    expected = mixture.predict_proba(columns)
    for place, own in enumerate(responsibilities(scaled(SCHEMA), mixture)):
        query = real(own, 0, 1)
        values = np.ldexp(evaluate_columns(query, columns).astype(float), -query.frac)
        # The table's 2^-10 and the logs' 2^-9 (a slope of 1/4 at most), and the lines'.
        allowed = 2**-10 + 2**-10 + max(k - 2, 0) * 0.01 / 4 + 0.001
        assert values == pytest.approx(expected[:, place], abs=allowed)


def test_responsibilities_are_bayes_rule() -> None:
    mixture = bells(3)
    points = mixture.points(GRID)
    density = np.stack(
        [
            weight / variance * np.exp(-((points - mean) ** 2).sum(axis=1) / (2 * variance))
            for weight, mean, variance in zip(
                mixture.weights, np.array(mixture.means), mixture.variances, strict=True
            )
        ],
        axis=1,
    )
    expected = density / density.sum(axis=1, keepdims=True)
    assert mixture.predict_proba(GRID) == pytest.approx(expected, abs=0.01)


def test_the_first_points_lie_about_the_mean_along_the_widest_number() -> None:
    people = blobs()[0]
    (answer,) = ExactOracle(SCHEMA, people).answer(Batch([start_question(SCHEMA, None)]))
    start = Start.of(answer, None)
    rows = scaled_rows(SCHEMA, encode_columns(SCHEMA, people))
    assert start.mean == pytest.approx(rows.mean(axis=0), abs=2**-10)
    assert start.variances == pytest.approx(rows.var(axis=0), abs=2**-8)
    points = start.points(3)
    widest = int(rows.var(axis=0).argmax())
    assert points[:, 1 - widest] == pytest.approx(start.mean[1 - widest], abs=2**-10)
    assert np.diff(points[:, widest]) == pytest.approx(1.7 * 2 / 3 * rows.std(axis=0)[widest], 0.01)
    assert (points * 1024 == np.rint(points * 1024)).all()


@pytest.mark.parametrize("clip", [Fraction(1, 2), Fraction(3)])
def test_a_user_answers_with_one_vector_of_the_promised_length(clip: Fraction) -> None:
    """Within the clip of its centre; what is farther is drawn back by the device."""
    columns, k = encode_columns(SCHEMA, GRID), 3
    clusters = Clusters(SCHEMA, tuple(tuple(row) for row in CENTRES[:k].tolist()), (1 / k,) * k)
    question = _sums(scaled(SCHEMA), CENTRES[:k], clip)
    vectors = evaluate_vectors(question.query, columns) / (1 << question.query.frac)
    assert question.values == k * (2 + 1)
    near = clusters.distances(columns).min(axis=1) <= clip**2
    assert near.any()
    lengths = np.sqrt((vectors**2).sum(axis=1))
    assert question.length is not None
    assert (lengths[near] <= float(question.length)).all()
    table = vectors.reshape(len(columns), k, 3)
    own = clusters.predict(columns)
    assert (table[np.arange(len(columns)), own, 0] == 0.5).all()
    assert ((table != 0).any(axis=2).sum(axis=1) == 1).all()


def test_k_means_finds_two_kinds_of_homes() -> None:
    columns, kind = blobs()
    found = learn(k_means(SCHEMA, k=2, rounds=20), ExactOracle(SCHEMA, columns))
    order = np.argsort(found.cluster_centers_[:, 0])
    assert found.cluster_centers_[order] == pytest.approx(np.array([[4, 250], [14, 700]]), rel=0.05)
    assert ((found.predict(columns) == order[1]) == kind).mean() > 0.99
    assert sum(found.shares) == pytest.approx(1)


def test_a_mixture_finds_two_kinds_of_homes_and_how_wide_they_are() -> None:
    columns, kind = blobs()
    found = learn(gaussian_mixture(SCHEMA, k=2, rounds=20), ExactOracle(SCHEMA, columns))
    order = np.argsort(np.array(found.means)[:, 0])
    assert np.array(found.means)[order] == pytest.approx(
        np.array([[-0.6, -0.5], [0.4, 0.4]]), abs=0.03
    )
    assert np.array(found.variances) == pytest.approx(0.01, abs=0.004)  # 1/10 of either range
    assert ((found.predict(columns) == order[1]) == kind).mean() > 0.99


def test_a_centre_without_people_goes_half_of_the_way_to_where_most_are() -> None:
    centres = CENTRES[:3]
    step = Step.of(np.array([0.5, 0.0, 0.0]), np.zeros((3, 2)), np.full(3, 1 / 3), 0.0)
    assert step.known.tolist() == [True, False, False]
    moved = step.taken(centres)
    assert moved[0] == pytest.approx(centres[0])
    assert moved[1:] == pytest.approx((centres[1:] + centres[0]) / 2, abs=2**-10)


def test_exact_sums_move_a_centre_to_its_mean_and_noisy_ones_less() -> None:
    counts, sums = np.array([0.25, 0.25]), np.array([[0.2, 0.0], [0.0, -0.1]])
    exact = Step.of(counts, sums, np.full(2, 0.5), 0.0)
    assert exact.moves == pytest.approx(2 * sums)  # shares are 1/2
    assert not exact.settled
    noisy = Step.of(counts, sums, np.full(2, 0.5), 0.4)
    assert noisy.moves == pytest.approx(sums)  # deviation 0.2 over the share is cut from 0.4 to 0.2
    assert Step.of(counts, 0 * sums, np.full(2, 0.5), 0.0).settled


def test_who_has_no_number_is_in_no_cluster() -> None:
    columns: dict[str, Any] = {"rooms": [5, 5, None, 5], "rent": [500.0, 500.0, 500.0, None]}
    found = learn(k_means(SCHEMA, k=1), ExactOracle(SCHEMA, columns))
    assert found.shares == (1.0,)  # of the users who have both numbers
    assert found.missing is not None
    assert found.missing.share == 0.5
    assert found.cluster_centers_ == pytest.approx(np.array([[5, 500]]), abs=0.5)


@pytest.mark.parametrize("tau", [None, "1/2", "1/1000"])
def test_rehearsals_go_through_all_rounds(tau: str | None) -> None:
    """Ask one vector question per round, of k (d + 1) or k (d + 2) components.

    An answer of zeros within a great tolerance was once taken for centres that stay.
    """
    schema = clusters_schema(3)
    first = rehearse(k_means(schema, k=4, rounds=5, tau=tau))
    assert [batch.values for batch in first] == [7, *[4 * (3 + 1)] * 5, 4 + 1]
    second = rehearse(gaussian_mixture(schema, k=3, rounds=5, tau=tau))
    assert [batch.values for batch in second] == [7, *[3 * (3 + 2)] * 5]


def test_settings_follow_from_users_and_noise_and_are_never_overridden() -> None:
    schema = clusters_schema(3)
    for make in (k_means, gaussian_mixture):
        few, many = (
            settled(make(schema), 10**9, Fraction(1, 20), users).parameters
            for users in (5_000, 10**7)
        )
        assert (few["rounds"], many["rounds"]) == ("6", "16")
        assert Fraction(few["clip"]) < Fraction(many["clip"])
        given = settled(make(schema, rounds=3, clip="1/4"), 10**9, Fraction(1, 20), 5_000)
        assert (given.parameters["rounds"], given.parameters["clip"]) == ("3", "1/4")


def test_more_sums_than_a_vector_has_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="k expects fewer clusters"):
        rehearse(k_means(clusters_schema(16), k=64))


@pytest.mark.parametrize(
    ("name", "hypothesis"),
    [
        ("k-means", Clusters(SCHEMA, ((0.5, -0.25), (0.0, 1.0)), (0.75, 0.25))),
        ("gaussian-mixture", bells(3)),
    ],
)
def test_clusters_are_read_as_they_were_written(name: str, hypothesis: Any) -> None:
    written = json.loads(json.dumps(hypothesis.to_json(), allow_nan=False))
    assert hypothesis_from_json(name, written) == hypothesis
    written["scaled"][0] = [0.5]
    with pytest.raises(InvalidParameter, match="of 2 numbers"):
        hypothesis_from_json(name, written)


def test_clusters_are_shown_in_the_fields_own_units() -> None:
    clusters = Clusters(SCHEMA, ((0.5, -0.25), (0.0, 1.0)), (0.75, 0.25))
    assert str(clusters) == "75.0% at rooms 15, rent 375; 25.0% at rooms 10, rent 1000"
    assert str(bells(1)) == "100.0% about rooms 5, rent 250 (scaled deviation 0.22)"


def test_a_mixture_has_weights_of_sum_one_and_positive_variances() -> None:
    for weights, variances in (((0.5, 0.6), (0.1, 0.1)), ((0.5, 0.5), (0.1, 0.0))):
        with pytest.raises(InvalidParameter, match="positive"):
            GaussianMixture(SCHEMA, weights, ((0.0, 0.0), (1.0, 1.0)), variances)


@pytest.mark.parametrize("learner", ["k-means", "gaussian-mixture"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": "0"}, "k: expected a whole number in 1"),
        ({"k": "65"}, "k: expected a whole number in 1"),
        ({"columns": "colour"}, "expected one of the fields rooms, got 'colour'"),
        ({"rounds": "0"}, "rounds: expected"),
        ({"tau": "x"}, "tau expects a finite number"),
    ],
)
def test_a_wrong_parameter_is_named(learner: str, parameters: dict[str, str], message: str) -> None:
    schema = Schema("s", 1, rooms=Integer(0, 20), colour=Category("ab"))
    with pytest.raises(InvalidParameter, match=message):
        find(learner).build(schema, parameters)


@pytest.mark.parametrize(
    ("learner", "d", "most"),
    [
        ("k-means", 1, 64),
        ("k-means", 16, 60),
        ("gaussian-mixture", 1, 16),
        ("gaussian-mixture", 16, 16),
    ],
)
def test_as_many_clusters_as_are_allowed_make_a_question(learner: str, d: int, most: int) -> None:
    """A device refuses expressions that are too deep or too long: not in the middle of a study."""
    text = {"k": str(most), "tau": "1/10", "rounds": "1"}
    made = find(learner).build(clusters_schema(d), text)
    asked = rehearse(made)[1].questions[0].query
    columns = encode_columns(clusters_schema(d), {f"x{place}": [0.5] for place in range(d)})
    assert evaluate_vectors(asked, columns).shape == (1, asked.components)
    assert asked.canonical
