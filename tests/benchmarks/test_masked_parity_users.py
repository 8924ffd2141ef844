"""At eps = 1 the printed scheme takes at least 0.35 d times our users, planned and measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import fisher_exact

from askance.aggregator.learners import MaskedParity

ALPHA = 1e-6


@pytest.mark.parametrize("d", [8, 16, 32, 64])
def test_the_planner_keeps_the_claim(masked_parity_users: ModuleType, d: int) -> None:
    ours, printed = (masked_parity_users.RoundOne(name, d, "1") for name in ("signed", "printed"))
    assert printed.groups == d
    assert ours.groups == 1
    assert Fraction(printed.plan.users, ours.plan.users) >= Fraction(35, 100) * d


@pytest.mark.parametrize(("d", "users", "trials"), [(8, 14_000, 1000), (16, 70_000, 400)])
def test_the_printed_scheme_fails_more_with_that_many_more_users(
    masked_parity_users: ModuleType, d: int, users: int, trials: int
) -> None:
    """Some 2 % of ours fail, and 9 % (d = 8) or 15 % of the printed: found with near certainty.

    d groups of .35 users each are .35 d times ours.
    """
    ours, printed = (masked_parity_users.RoundOne(name, d, "1") for name in ("signed", "printed"))
    failed = [
        ours.failures(users, trials, trials),
        printed.failures(35 * users // 100, trials, trials),
    ]
    table = [[count, trials - count] for count in failed]
    assert fisher_exact(table, alternative="less").pvalue < ALPHA


@pytest.mark.parametrize("variant", ["signed", "printed"])
@pytest.mark.parametrize("d", [2, 4])
def test_levels_are_those_of_the_class(
    masked_parity_users: ModuleType, variant: str, d: int
) -> None:
    """Every example (x, i, b), labelled by every concept, against the law of levels drawn from."""
    round_one = masked_parity_users.RoundOne(variant, d, "1")
    examples = [(*x, i, b) for x in product((0, 1), repeat=d) for i in range(d) for b in (0, 1)]
    plain = np.array(examples, dtype=np.int64)
    columns = {"x": plain[:, :d], "i": plain[:, d], "b": plain[:, d + 1]}
    schema = masked_parity_users.masked_parity_schema(d)
    for r in product((0, 1), repeat=d):
        (weights,) = masked_parity_users._record_weights(np.array([r]))
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        for a in (0, 1):
            labels = MaskedParity(r, a).predict(columns)
            encoded = schema.encode_columns(columns | {"y": labels})
            for question, levels in zip(round_one._batch.questions, round_one._levels, strict=True):
                law = defaultdict[int, float](float)
                for level, weight in zip(levels.tolist(), weights.tolist(), strict=True):
                    law[level] += weight
                seen = Counter(question.query.evaluate(encoded).tolist())
                for level in law.keys() | seen.keys():
                    assert law[level] == pytest.approx(seen[level] / len(plain), abs=1e-12)


def test_true_answers_read_the_mask(masked_parity_users: ModuleType) -> None:
    """So many users that nobody is misread, and so few that about every mask is."""
    for variant in ("signed", "printed"):
        round_one = masked_parity_users.RoundOne(variant, 8, "1")
        assert round_one.failures(10**7, 20, 20) == 0
        assert round_one.failures(1, 20, 20) >= 15


def test_counting_ends_when_the_answer_is_known(masked_parity_users: ModuleType) -> None:
    round_one = masked_parity_users.RoundOne("signed", 8, "1")
    assert round_one.failures(1, 200, 3) == 4


def test_it_runs(masked_parity_users: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert masked_parity_users.main(["--quick", "--json", "--d", "8", "--trials", "100"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["rows"]
    assert (told["holds"], row["d"], row["epsilon"]) == (True, 8, "1")
    for name in ("ours", "printed"):
        measured = row[f"measured_{name}"]
        assert measured["users"] <= row[f"planned_{name}"], "the planner's size is an upper bound"
        assert measured["failure_rate"] <= told["beta"]
    assert (
        masked_parity_users.main(["--quick", "--d", "2", "--trials", "20", "--epsilon", "4"]) == 0
    )
    assert "measured" in capsys.readouterr().out


@pytest.mark.slow
def test_the_sampler_keeps_the_claim(
    masked_parity_users: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert masked_parity_users.main(["--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["d"] for row in rows] == [8, 16]
    for row in rows:
        assert row["measured_ratio"] >= 0.35 * row["d"]
