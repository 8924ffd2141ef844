"""At eps = 1 the printed scheme takes at least 0.7 d times our users; at eps = 2, 0.5 d times."""

from __future__ import annotations

import importlib
import json
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom, chi2

from askance_aggregator.estimation import estimate
from askance_aggregator.families import best_for
from askance_aggregator.learners import (
    Answer,
    Answers,
    MaskedParity,
    masked_parity,
    masked_parity_schema,
    neutral_answer,
)
from askance_aggregator.planning.precision import candidates
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_client.accounting import parse_epsilon
from askance_client.exact_laws import probability
from askance_client.randomizers import (
    HadamardSign,
    KaryResponse,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_simulation.counts import sample_levels, sample_tally

ALPHA = 1e-6
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("masked_parity_users")


@pytest.fixture
def laws(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("masked_parity_laws")


def read_by_the_learner(d: int, variant: str, answers: Answers) -> list[int]:
    """Return the mask; the second round's answers are withheld, its bit is not read."""
    run = masked_parity(masked_parity_schema(d), variant).run()
    next(run)
    second = run.send(answers)
    with pytest.raises(StopIteration) as done:
        run.send(tuple(neutral_answer(question) for question in second.questions))
    concept: MaskedParity = done.value.value
    return list(concept.r)


@pytest.mark.parametrize(("epsilon", "claim"), [("1", 0.7), ("2", 0.5)])
@pytest.mark.parametrize("d", [8, 64, 256])
def test_the_planner_keeps_the_claim(laws: ModuleType, epsilon: str, claim: float, d: int) -> None:
    ours, printed = laws.Ours(d, epsilon), laws.Printed(d, epsilon)
    assert (ours.groups, printed.groups) == (1, d)
    assert printed.plan.users >= claim * d * ours.plan.users


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_levels_are_those_of_the_class(laws: ModuleType, d: int) -> None:
    """Every example (x, i, b), labelled by every concept, against the law of levels drawn from."""
    ours = laws.Ours(d, "1")
    examples = [(*x, i, b) for x in product((0, 1), repeat=d) for i in range(d) for b in (0, 1)]
    plain = np.array(examples, dtype=np.int64)
    columns = {"x": plain[:, :d], "i": plain[:, d], "b": plain[:, d + 1]}
    schema = masked_parity_schema(d)
    (question,) = ours.batch.questions
    for r in product((0, 1), repeat=d):
        (law,) = ours.law(np.array([r]))
        assert law.sum() == pytest.approx(1, abs=1e-12)
        for a in (0, 1):
            labels = MaskedParity(r, a).predict(columns)
            encoded = encode_columns(schema, columns | {"y": labels})
            seen = Counter(evaluate_columns(question.query, encoded).tolist())
            for level, chance in enumerate(law.tolist()):
                assert chance == pytest.approx(seen[level] / len(plain), abs=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_the_printed_predicates_are_true_as_often_as_its_law_says(laws: ModuleType, d: int) -> None:
    """E[g_j] = 1/(2d) if r_j = 1, else 0, over every example, through the randomizer."""
    printed = laws.Printed(d, "1")
    channel = printed.plan.groups[0].randomizer
    for r in product((0, 1), repeat=d):
        (weights,) = laws.record_weights(np.array([r]))
        place = np.arange(4 * d)
        encoded = encode_columns(
            masked_parity_schema(d),
            {
                "x": np.zeros((4 * d, d), dtype=np.int64),
                "i": place // 4,
                "b": place // 2 % 2,
                "y": 1 - 2 * (place % 2),
            },
        )
        for bit, question in zip(r, printed.batch.questions, strict=True):
            yes = defaultdict[int, float](float)
            for level, weight in zip(
                evaluate_columns(question.query, encoded).tolist(), weights.tolist(), strict=True
            ):
                yes[level] += weight
            chance = sum(yes[level] * float(probability(channel, level, b"\1")) for level in yes)
            assert chance == pytest.approx(float(printed._yes[bit]), abs=1e-12)


def test_the_learner_reads_the_printed_answers_so(laws: ModuleType) -> None:
    """Around the threshold, on it (a whole number of users for which it is one) and far off."""
    d, users = 2, 1 << 12
    printed = laws.Printed(d, "1")
    most = printed.most_for_zero(users)
    channel = printed.plan.groups[0].randomizer
    for yes in (0, most - 1, most, most + 1, users):
        answers = tuple(
            estimate(question, channel, [users - yes, yes], users, 0.01)
            for question in printed.batch.questions
        )
        assert read_by_the_learner(d, "printed", answers) == [int(yes > most)] * d


@pytest.mark.parametrize(
    ("d", "epsilon", "family"),
    [(8, "1", HadamardSign), (8, "2", SubsetSelection), (8, "4", KaryResponse)],
)
def test_the_learner_reads_tallies_so(
    laws: ModuleType, d: int, epsilon: str, family: type[Randomizer]
) -> None:
    """Few users, so that about half of the masks are misread, and ties are frequent."""
    ours = laws.Ours(d, epsilon)
    assert ours.randomizer.name == family.name
    (question,) = ours.batch.questions
    rng = np.random.default_rng(5)
    masks = rng.integers(0, 2, (60, d))
    for users in (40, ours.group_users // 5):
        counts = sample_levels(ours.law(masks), users, rng, len(masks))
        tallies = sample_tally(ours.randomizer, counts, rng, len(masks))
        plus = tallies[:, :d] if family is HadamardSign else tallies[:, : 2 * d : 2]
        minus = users - plus if family is HadamardSign else tallies[:, 1 : 2 * d : 2]
        misread = laws._of_points(plus - minus, masks)
        for mask, tally, wrong in zip(masks.tolist(), tallies, misread.tolist(), strict=True):
            answer: Answer = estimate(question, ours.randomizer, tally, users, 0.01)
            assert (read_by_the_learner(d, "signed", (answer,)) != mask) == bool(wrong)


def test_chances_of_signed_sets_are_the_average_over_their_coins(laws: ModuleType) -> None:
    """Few strays: every outcome of their coins is enumerated."""
    bound = np.array([[2, 1, 0, 3], [0, 0, 1, 0]])
    strays = np.array([[3, 2], [0, 4]])
    masks = np.array([[0, 1], [1, 0]])
    found = laws._of_sets(bound, strays, masks)
    for row in range(2):
        chance = 0.0
        for plus in product(*(range(number + 1) for number in strays[row])):
            weight = float(np.prod(binom.pmf(plus, strays[row], 0.5)))
            points = bound[row, 0::2] - bound[row, 1::2] + 2 * np.array(plus) - strays[row]
            chance += weight * ((points < 0) != (masks[row] == 1)).any()
        assert found[row] == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_what_is_integrated_fails_as_often_as_what_is_drawn(laws: ModuleType, epsilon: str) -> None:
    """Against tallies by `sample_tally`, of 3,000 trials at a rate near 1/4: chi-squared."""
    ours = laws.Ours(16, epsilon)
    (question,) = ours.batch.questions
    if epsilon == "2":
        assert isinstance(ours.randomizer, SignedSubsetSelection)
    assert ours.randomizer in candidates(question, parse_epsilon(epsilon), best_for)
    rng = np.random.default_rng(11)
    users, trials = ours.group_users // 2, 3000
    masks = rng.integers(0, 2, (trials, 16))
    tallies = sample_tally(
        ours.randomizer, sample_levels(ours.law(masks), users, rng, trials), rng, trials
    )
    if isinstance(ours.randomizer, HadamardSign):
        drawn = laws._of_points(2 * tallies - users, masks)
    else:
        drawn = laws._of_points(tallies[:, 0::2] - tallies[:, 1::2], masks)
    found = ours.misread(users, masks, rng)
    spread = drawn.var() / trials + found.var() / trials
    assert 0.02 < drawn.mean() < 0.6
    assert (drawn.mean() - found.mean()) ** 2 / spread < chi2.isf(ALPHA, 1)


def test_the_printed_law_is_that_of_its_tallies(laws: ModuleType) -> None:
    """20,000 trials of d = 8 groups, drawn one by one: chi-squared."""
    printed = laws.Printed(8, "2")
    users, trials = printed.group_users // 2, 20_000
    rng = np.random.default_rng(3)
    masks = rng.integers(0, 2, (trials, 8))
    yes = rng.binomial(users, np.array([float(chance) for chance in printed._yes])[masks])
    wrong = ((yes > printed.most_for_zero(users)) != (masks == 1)).any(axis=1)
    rate = printed.failure(users, 1).rate
    assert 0.05 < rate < 0.6
    assert (wrong.mean() - rate) ** 2 * trials / (rate * (1 - rate)) < chi2.isf(ALPHA, 1)


def test_probes_end_when_the_answer_is_known(laws: ModuleType) -> None:
    ours = laws.Ours(8, "1")
    few, many = ours.failure(1, 20), ours.failure(10**7, 20)
    assert (few.trials, many.trials) == (1000, 1000)
    assert few.rate > 0.9
    assert many.rate == 0


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "users.png"
    given = ["--quick", "--json", "--d", "4", "8", "--batches", "1", "--plot", str(picture)]
    assert program.main(given) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is True
    assert [row["d"] for row in told["rows"]] == [4, 8]
    for row in told["rows"]:
        for name in ("ours", "printed"):
            measured = row[f"measured_{name}"]
            assert measured["users"] <= row[f"planned_{name}"], "a plan is an upper bound"
            assert measured["failure_rate"] <= told["beta"]
        assert row["measured_printed"]["error"] == 0, "the printed scheme's law is exact"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert {fit["scheme"] for fit in told["fits"]} == {"ours", "printed"}


def test_a_broken_claim_is_an_exit_code(
    program: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "CLAIMS", {"1": 1.5})
    assert program.main(["--quick", "--d", "8", "--batches", "1"]) == 1
    assert "NO" in capsys.readouterr().out


@pytest.mark.slow
def test_the_sampler_keeps_the_claim(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--epsilon", "1", "2", "--d", "8", "16", "--batches", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 4
    for row in rows:
        assert row["ratio_over_d"] >= program.CLAIMS[row["epsilon"]]
        assert row["planned_over_measured"] <= 1.5
