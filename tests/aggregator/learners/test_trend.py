"""Trend: one answer per user about the values of all epochs."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.families import CodebookFamily, random_codebook
from askance_aggregator.learners import Answer, NonAdaptive, Question, find, paths_schema, trend
from askance_aggregator.learners.trend import DiscountedChanges
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import encode_columns, evaluate_vectors
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Integer, QueryKind, Real, Schema
from askance_simulation.audit import Subject, audit_devices
from askance_simulation.audit.fleet import Case, MemoryLedgers, StreamCoins
from askance_simulation.experiments import Trial, named, run_trial, simulate_epochs
from askance_simulation.populations import Population, paths
from askance_simulation.randomness import Seed

NAT = 10**9
ALPHA = 1e-6
TRIALS, USERS, EPOCHS = 60, 500, 8
Bits = NDArray[np.int64]


def question_of(schema: Schema, changes: Any, **settings: Any) -> Question:
    learner = trend(schema, changes=changes, **settings)
    assert isinstance(learner, NonAdaptive)
    (question,) = learner.batch.questions
    return question


def columns_of(table: Any) -> dict[str, Any]:
    """Return a table of one row per user as columns of `paths_schema`."""
    return {f"epoch_{place}": column for place, column in enumerate(np.asarray(table).T, 1)}


def changing(users: int, epochs: int, changes: int, seed: int) -> Bits:
    """Draw bits that change so often."""
    rng = np.random.default_rng(seed)
    turns = np.argsort(rng.random((users, epochs - 1)), axis=1).argsort(axis=1) < changes
    first = rng.random(users) < 0.25
    return np.column_stack([first, first[:, None] ^ (np.cumsum(turns, axis=1) & 1)]).astype(int)


def lengths(question: Question, table: Any) -> NDArray[np.float64]:
    """Compute the lengths of what users with these bits answer, in real units."""
    schema = paths_schema(np.shape(table)[1])
    coded = evaluate_vectors(question.query, encode_columns(schema, columns_of(table)))
    assert coded.shape == np.shape(table)
    return np.asarray(np.linalg.norm(coded, axis=1) / (1 << question.query.frac))


class TestEstimates:
    @pytest.mark.parametrize("epochs", [2, 3, 16, 40])
    @pytest.mark.parametrize("changes", ["0.01", "1", "3/2", "20"])
    def test_exact_answers_give_the_share_of_every_epoch(self, epochs: int, changes: str) -> None:
        bits = changing(200, epochs, 1, epochs)
        schema = paths_schema(epochs)
        found = learn(trend(schema, changes=changes), ExactOracle(schema, columns_of(bits)))
        assert found.estimates == pytest.approx(bits.mean(axis=0), abs=1e-4)
        assert found.epochs == tuple(schema.fields)

    def test_values_that_never_change_are_asked_as_one_number(self) -> None:
        schema = paths_schema(5)
        bits = changing(100, 5, 0, 1)
        found = learn(trend(schema, changes=0), ExactOracle(schema, columns_of(bits)))
        assert question_of(schema, 0).query.kind is QueryKind.REAL
        assert found.estimates == pytest.approx([bits[:, 0].mean()] * 5)

    def test_numbers_are_in_their_own_units(self) -> None:
        schema = Schema("loads", 1, may=Real(-3, 13), june=Real(-3, 13), july=Real(-3, 13))
        columns = {"may": [-3, 13, 5], "june": [0, 13, 5], "july": [1, -3, 5]}
        found = learn(trend(schema), ExactOracle(schema, columns))
        assert found.estimates == pytest.approx([5, 6, 1], abs=1e-3)
        assert found.range == (-3.0, 13.0)

    def test_the_share_of_a_category_is_asked_by_its_value(self) -> None:
        browser = Category(("fox", "owl", "elk"))
        schema = Schema("browsers", 1, one=browser, two=browser)
        columns = {"one": ["fox", "owl", "elk", "elk"], "two": ["elk", "owl", "elk", "elk"]}
        found = learn(trend(schema, value="elk"), ExactOracle(schema, columns))
        assert found.estimates == pytest.approx([0.5, 0.75], abs=1e-4)

    def test_a_user_without_a_value_counts_with_the_middle_in_every_epoch(self) -> None:
        schema = paths_schema(2)
        columns: dict[str, Any] = {"epoch_1": [1, 1], "epoch_2": [1, None]}
        for changes in (0, "1/8", 1):
            found = learn(trend(schema, changes=changes), ExactOracle(schema, columns))
            assert found.estimates == pytest.approx([0.75, 0.75], abs=1e-4)

    def test_the_most_epochs_are_asked_and_one_more_is_refused(self) -> None:
        schema = Schema.of("long", 1, {f"epoch_{t}": Integer(-5, 5) for t in range(1, 258)})
        names = list(schema.fields)
        question = question_of(schema, "1/3", columns=names[:256])
        assert question.query.components == 256
        with pytest.raises(InvalidParameter, match=r"expected 2\.\.256 fields.*got 257"):
            trend(schema)


class TestLength:
    @pytest.mark.parametrize("changes", [1, 2, 3])
    def test_every_path_of_so_few_changes_is_within_the_length_and_some_attain_it(
        self, changes: int
    ) -> None:
        """All paths of 8 bits with `changes` changes or fewer; one more change passes it."""
        question = question_of(paths_schema(8), changes)
        assert question.length is not None
        longest = float(question.length)

        def all_of(count: int) -> Bits:
            table = np.zeros((2, 7), dtype=int)[:0]
            turns = [np.isin(np.arange(7), chosen) for chosen in combinations(range(7), count)]
            table = np.cumsum(turns, axis=1) & 1
            whole = np.column_stack([np.zeros(len(table), int), table])
            return np.vstack([whole, 1 - whole])

        for count in range(changes + 1):
            found = lengths(question, all_of(count))
            assert found.max() <= longest
        assert found.min() > longest - 1e-4
        assert lengths(question, all_of(changes + 1)).min() > longest

    def test_a_drift_in_small_steps_is_within_the_length(self) -> None:
        """16 steps of 1/16 of the range: squares that sum to 1/16."""
        schema = Schema.of("drift", 1, {f"epoch_{t}": Real(0, 1) for t in range(1, 18)})
        question = question_of(schema, "1/16")
        rows = np.array([np.arange(17) / 16, 1 - np.arange(17) / 16])
        coded = evaluate_vectors(question.query, encode_columns(schema, columns_of(rows)))
        found = np.linalg.norm(coded, axis=1)
        assert question.length is not None
        assert (found / (1 << question.query.frac)).max() <= float(question.length)

    @pytest.mark.parametrize("epochs", [16, 64])
    @pytest.mark.parametrize("changes", [1, 3, 7])
    def test_all_epochs_have_the_variance_that_is_stated(self, epochs: int, changes: int) -> None:
        code = DiscountedChanges.of(epochs, Fraction(changes))
        found = np.square(code.weights).sum(axis=1) * float(code.length) ** 2
        stated = 1 + 2 * np.sqrt(changes * (epochs - 1 - changes))
        assert found == pytest.approx(np.full(epochs, stated), rel=2e-3)

    def test_from_half_of_the_epochs_on_the_values_themselves_are_asked(self) -> None:
        for changes in (8, 15, 100):
            code = DiscountedChanges.of(16, Fraction(changes))
            assert code.ratio == 0
            assert float(code.length) ** 2 == pytest.approx(16, abs=1e-4)


def small(changes: str, users: int = 400, epsilon: str = "4", truth: str = "1") -> Trial:
    """Run `trend` on 8 epochs as columns."""
    people = paths(users, Seed.of(9), 8, int(truth))
    study = Study(trend(people.schema, changes=changes), people.schema, epsilon=epsilon)
    return run_trial(study, people, fleet="columns", seed=Seed.of(4))


@pytest.fixture(scope="module", params=["1", "4"])
def runs(request: pytest.FixtureRequest) -> tuple[str, list[Trial], Bits]:
    """Return trials on the same bits, of which all users change once."""
    found, bits = [], changing(USERS, EPOCHS, 1, 3)
    schema = paths_schema(EPOCHS)
    people = Population.from_columns(schema, columns_of(bits))
    study = Study(trend(schema), schema, epsilon=request.param)
    for trial in range(TRIALS):
        found.append(run_trial(study, people, fleet="columns", seed=Seed.of(trial)))
    return request.param, found, bits


class TestReports:
    def test_estimates_are_unbiased_and_their_variance_is_the_stated_one(
        self, runs: tuple[str, list[Trial], Bits]
    ) -> None:
        """60 trials of 8 epochs; the mean within 5 standard errors, the variance within 30 %.

        Errors of the epochs are correlated, so that the variance has fewer degrees of freedom than
        480; .3 is more than 5 of its standard errors with 300.
        """
        epsilon, trials, bits = runs
        estimates = np.array([trial.outcome.hypothesis.estimates for trial in trials])
        errors = estimates - bits.mean(axis=0)
        code = DiscountedChanges.of(EPOCHS, Fraction(1))
        family = CodebookFamily(random_codebook(EPOCHS, 1 << 20, int(epsilon) * NAT))
        squares = np.square(code.weights).sum(axis=1) * float(code.length) ** 2
        # Along an epoch lies 1 / N of a user's squared length. The users are the same in every
        # trial, so that their own values, -1 or 1, are no part of the error.
        moment = squares * family.variance_along(1 / squares.max())
        variance = (moment - 1) / 4 / USERS
        assert (np.abs(errors.mean(axis=0)) < 5 * np.sqrt(variance / TRIALS)).all()
        ratio = np.square(errors).mean() / variance.mean()
        assert 0.7 < ratio < 1.3

    def test_intervals_hold_together_and_are_not_wider_than_needed(
        self, runs: tuple[str, list[Trial], Bits]
    ) -> None:
        _, trials, bits = runs
        truth, held = bits.mean(axis=0), 0
        for trial in trials:
            found = trial.outcome.hypothesis
            inside = (np.array(found.lows) <= truth) & (truth <= np.array(found.highs))
            held += bool(inside.all())
        assert held >= 57  # P[fewer] < .01 if it is .95 at least
        ends = [trial.outcome.hypothesis for trial in trials]
        errors = [np.array(found.estimates) - truth for found in ends]
        half = min((np.array(found.highs) - np.array(found.lows)).max() / 2 for found in ends)
        sample = 0.25 / USERS  # intervals are for the population
        # Bernstein's: 3.40 standard deviations for 8 epochs, and the linear term.
        assert half < 4.2 * np.sqrt(np.var(errors) + sample)

    def test_every_user_answers_once_and_is_charged_the_exact_loss(self) -> None:
        made = named("trend", epsilon="2", users=80, settings={"horizon": "8", "changes": "2"})
        people = made.people(Seed.of(1))
        study = made.study(people)
        trials = {
            fleet: run_trial(study, people, fleet=fleet, seed=Seed.of(2))
            for fleet in ("objects", "columns")
        }
        for trial in trials.values():
            spending = trial.outcome.spending
            assert trial.outcome.answers == 80
            assert spending.max_spent * 80 == spending.total_spent
            (round_plan,) = study.plan(n_users=80).rounds
            assert spending.max_spent == round_plan.groups[0].randomizer.loss.nano_nats
            assert 0 <= 2 * NAT - spending.max_spent <= 1
        assert len({trial.outcome.transcript for trial in trials.values()}) == 1

    def test_what_is_asked_and_charged_depends_on_no_path(self) -> None:
        """Users who never change and users who always do: the same requests, charges, widths."""
        still, restless = (small("1", truth=count) for count in ("0", "7"))
        asked = [trial.transcript.recorded[1] for trial in (still, restless)]
        assert asked[0] == asked[1]
        assert still.outcome.spending == restless.outcome.spending
        ends = [trial.outcome.hypothesis for trial in (still, restless)]
        widths = [np.array(found.highs) - np.array(found.estimates) for found in ends]
        assert np.median(widths[0]) == pytest.approx(np.median(widths[1]), abs=0.02)

    def test_an_audit_of_devices_finds_no_more_than_the_charge(self) -> None:
        """Paths without a change and of changes only, and a missing value; 100 reports; ALPHA."""
        schema = Schema.of("audited", 1, {f"epoch_{t}": Bit() for t in range(1, 7)})
        question = question_of(schema, 1)
        assert question.length is not None
        book = random_codebook(6, int(question.length * (1 << question.query.frac)) + 1, NAT)

        def case(name: str, record: dict[str, int]) -> Case:
            columns = {key: [record.get(key)] for key in schema.fields}
            coded = evaluate_vectors(question.query, encode_columns(schema, columns))
            values = coded.reshape(-1).tolist()
            query, rounding = question.query, [0] * book.vector_coins
            level = book.vector_level(values, query.low, query.high, rounding)
            return Case(name, record, {level: Fraction(1)})

        names = list(schema.fields)
        subject = Subject(
            "trend",
            schema,
            question.query,
            book,
            (
                case("no change", dict.fromkeys(names, 1)),
                case("changes only", {name: place % 2 for place, name in enumerate(names)}),
                case("one missing", dict.fromkeys(names[1:], 1)),
                case("another missing", dict.fromkeys(names[:-1], 0)),
            ),
        )
        found = audit_devices(
            subject, StreamCoins(Seed.of(0)), MemoryLedgers(), reports=100, alpha=ALPHA
        )
        assert found.alarms == ()
        assert found.goodness.statements > 0
        assert found.nano_nats == book.loss.nano_nats <= NAT


def test_sums_of_an_answer_without_a_law_lie_between_the_sums_of_its_ends() -> None:
    answer = Answer((1.0, 2.0), (0.5, 1.0), (1.5, 4.0))
    low, high = answer.sums(np.array([[1.0, 1.0], [1.0, -1.0]]), 10.0)
    assert low.tolist() == [1.5, -3.5]
    assert high.tolist() == [5.5, 0.5]


def test_sums_of_a_codebooks_answer_are_narrower_than_the_sums_of_its_ends() -> None:
    people = paths(4_000, Seed.of(2), 32, 1)
    study = Study(trend(people.schema), people.schema, epsilon="4")
    found = run_trial(study, people, fleet="columns", seed=Seed.of(1)).outcome.hypothesis
    code = DiscountedChanges.of(32, Fraction(1))
    family = CodebookFamily(random_codebook(32, 1 << 20, 4 * NAT))
    tail = np.sqrt(2 * family.greatest_variance * np.log(2 * 32 / 0.05) / 4_000)
    summed = float(code.length) * tail * np.abs(code.weights).sum(axis=1).max() / 2
    half = (found.highs[-1] - found.lows[-1]) / 2
    assert half < summed / 2


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"columns": ["a", "b"], "changes": -1}, "changes: expected 0 or more, got -1"),
        ({"columns": ["a"]}, r"columns: expected 2\.\.256 fields"),
        ({"columns": ["a", "n"]}, r"fields of one range, got a 0\.\.1, n 0\.\.9"),
        ({"columns": ["a", "c"]}, "c: expected a bit or a number, got Category"),
        ({"columns": ["c", "d"], "value": "z"}, "value of c"),
        ({"columns": ["a", "b"], "value": "x"}, "a: expected a category, as value is set, got Bit"),
        ({"columns": ["a", "bb"]}, "bb"),
    ],
)
def test_a_path_that_cannot_be_asked_is_refused_with_the_callers_value(
    settings: dict[str, Any], match: str
) -> None:
    kind = Category(("x", "y"))
    schema = Schema("mixed", 1, a=Bit(), b=Bit(), n=Integer(0, 9), c=kind, d=kind)
    with pytest.raises(InvalidParameter, match=match):
        trend(schema, **settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"changes": "3/2"}, {"changes": 0}, {"columns": ["epoch_2", "epoch_4"], "tau": "1/10"}],
)
def test_a_trend_is_signed_as_text_that_makes_it_again(settings: dict[str, Any]) -> None:
    schema = paths_schema(4)
    learner = trend(schema, **settings)
    built = find("trend").build(schema, find("trend").spell(learner, schema))
    assert built.parameters == learner.parameters


def test_a_trend_repeats_horizon_by_horizon_and_each_is_charged() -> None:
    """Two horizons of 8 epochs of 7 days: fresh answers, and the loss of both by the ledgers."""
    users = 60
    series = simulate_epochs(
        Study(trend(paths_schema(8)), paths_schema(8), epsilon="2"),
        lambda horizon: paths(users, Seed.of(horizon), 8, 1),
        every_days=56,
        epochs=2,
        seed=3,
    )
    for horizon in series.epochs:
        assert [row.name for row in horizon.rows] == list(paths_schema(8).fields)
        assert (horizon.outcome.answers, horizon.outcome.reused) == (users, 0)
    assert 2 * (2 * NAT - 1) <= series.max_spent <= 4 * NAT
