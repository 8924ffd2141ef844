"""The curator's command: what it releases, what it promises, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance.cli import main
from askance_aggregator.sampling import SystemWords
from askance_papers.curate import LEARNERS, Curated, CuratorEntry, CuratorRequest
from askance_papers.curator.mechanisms import Laplace, fine_step

Run = Callable[..., tuple[int, dict[str, Any], str]]
KEYS = {"learner", "n", "epsilon", "delta", "guarantee", "result", "notes"}
PEOPLE = 2000
BOUNDS = "bounds=age:0:100,hours:0:80"
LABELS = "labels=rich:no|yes,town:north|south|(missing)"
SCHEMA = """
name = "people"
[fields]
age = { type = "integer", low = 0, high = 100 }
hours = { type = "real", low = "0", high = "80", frac_bits = 4 }
town = { type = "category", labels = ["north", "south", "(missing)"] }
rich = { type = "label", labels = ["no", "yes"] }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write users whose income depends on age and hours, and bits of which y is a parity."""
    found = tmp_path_factory.mktemp("curate")
    rng = np.random.default_rng(8)
    age, hours = rng.integers(20, 80, PEOPLE), rng.integers(0, 161, PEOPLE) / 2
    town = np.array(["north", "south", "?"])[rng.choice(3, PEOPLE, p=[0.7, 0.2, 0.1])]
    rich = np.where(age / 60 + hours / 80 > 1.4, "yes", "no")
    rows = zip(age, hours, town, rich, strict=True)
    lines = ["age,hours,town,rich", *(",".join(map(str, row)) for row in rows)]
    (found / "people.csv").write_text("\n".join(lines))
    (found / "people.toml").write_text(SCHEMA)
    bits = rng.integers(0, 2, (PEOPLE, 4))
    lines = [",".join(map(str, [*row, row[0] ^ row[2]])) for row in bits]
    (found / "bits.csv").write_text("\n".join(["a,b,c,d,y", *lines]))
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], folder: Path) -> Run:
    """Run `curate` with --json on people.csv: its exit code, its one object, and its stderr."""

    def call(
        learner: str, *words: str, data: str = "people.csv", epsilon: str = "2"
    ) -> tuple[int, dict[str, Any], str]:
        words = ("--data", str(folder / data), "--epsilon", epsilon, *words)
        code = main(["curate", learner, *words, "--json"])
        printed = capsys.readouterr()
        assert printed.out.count("\n") == 1, printed.out
        return code, json.loads(printed.out), printed.err

    return call


def sets(*settings: str) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def released(found: tuple[int, dict[str, Any], str]) -> dict[str, Any]:
    code, told, err = found
    assert (code, err) == (0, "")
    assert told.keys() == KEYS
    assert told["n"] == PEOPLE
    assert told["guarantee"].startswith(("2-diff", "(2, 1e-06)-diff")), told["guarantee"]
    return told


class TestLearners:
    def test_mean(self, run: Run) -> None:
        told = released(run("mean", *sets(BOUNDS, "columns=age,hours")))
        assert told["delta"] is None
        ages = told["result"]["means"]["age"]
        assert ages["low"] < ages["estimate"] < ages["high"] < ages["low"] + 2
        assert 45 < ages["estimate"] < 55
        assert 37 < told["result"]["means"]["hours"]["estimate"] < 43

    def test_histogram_of_labels_counts_the_missing(self, run: Run) -> None:
        told = released(run("histogram", *sets(LABELS, "column=town")))
        counts = told["result"]["counts"]
        assert list(counts) == ["north", "south", "(missing)"]
        assert abs(sum(one["estimate"] for one in counts.values()) - PEOPLE) < 100
        assert 100 < counts["(missing)"]["estimate"] < 300

    def test_histogram_of_numbers(self, run: Run) -> None:
        told = released(run("histogram", *sets(BOUNDS, "column=age", "bins=5")))
        counts = told["result"]["counts"]
        assert list(counts) == ["0 .. 20", "20 .. 40", "40 .. 60", "60 .. 80", "80 .. 100"]
        assert counts["20 .. 40"]["estimate"] > 500 > counts["0 .. 20"]["estimate"] + 400

    def test_agnostic(self, run: Run, folder: Path) -> None:
        schema = ["--schema", str(folder / "people.toml"), "--label", "rich"]
        told = released(run("agnostic", *schema))
        assert told["result"]["hypothesis"]["feature"] in ("age", "hours")
        assert told["result"]["hypothesis"]["above"] == "yes"
        assert told["result"]["hypotheses"] == 2 * (15 + 15 + 3)
        assert "not released" in told["notes"][0]

    def test_adaboost(self, run: Run) -> None:
        told = released(
            run("adaboost", "--label", "rich", *sets(BOUNDS, LABELS, "rounds=7", "cuts=9"))
        )
        members = told["result"]["members"]
        assert len(members) == 7
        assert {one["feature"] for one in members} >= {"age", "hours"}

    def test_parity(self, run: Run) -> None:
        bits = sets("bounds=a:0:1,b:0:1,c:0:1,d:0:1,y:0:1")
        told = released(run("parity", "--label", "y", *bits, data="bits.csv"))
        assert told["result"]["hypothesis"] in ({"r": "1010"}, None)

    @pytest.mark.parametrize("mechanism", ["objective", "output"])
    def test_logistic(self, run: Run, mechanism: str) -> None:
        asked = sets(BOUNDS, LABELS, f"mechanism={mechanism}")
        told = released(run("logistic", "--label", "rich", *asked))
        coefficients = told["result"]["coefficients"]
        assert list(coefficients)[:2] == ["age", "hours"]
        assert list(coefficients)[-1] == "(intercept)"
        assert "not as floats" in told["guarantee"]

    def test_logistic_learns_with_a_budget(self, run: Run) -> None:
        _, told, _ = run("logistic", "--label", "rich", *sets(BOUNDS, LABELS), epsilon="100")
        coefficients = told["result"]["coefficients"]
        assert coefficients["age"] > 0 < coefficients["hours"]

    @pytest.mark.parametrize(("method", "delta"), [("mwem", None), ("gaussian", 1e-6)])
    def test_synopsis(self, run: Run, method: str, delta: float | None) -> None:
        told = released(run("synopsis", *sets(LABELS, f"method={method}", "rows=500")))
        assert told["delta"] == delta
        assert told["result"]["columns"] == ["rich", "town"]
        towns = [row[1] for row in told["result"]["rows"]]
        assert len(towns) == 500
        assert towns.count("north") > 250

    def test_none_is_forgotten_here(self) -> None:
        tested = {name.removeprefix("test_").split("_")[0] for name in dir(TestLearners)}
        assert set(LEARNERS) <= tested


class TestWhatIsPromised:
    def test_without_a_seed_the_system_draws(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        take = SystemWords.take

        def noted(self: SystemWords, count: int) -> NDArray[np.uint64]:
            asked.append(count)
            return take(self, count)

        monkeypatch.setattr(SystemWords, "take", noted)
        _, told, _ = run("mean", *sets(BOUNDS, "columns=age"))
        assert asked
        assert not any("seeded" in note for note in told["notes"])

    def test_with_a_seed_it_is_an_experiment(self, run: Run) -> None:
        one, two, three = (
            run("mean", "--seed", seed, *sets(BOUNDS, "columns=age"))[1] for seed in "112"
        )
        assert one == two != three
        assert "seeded: an experiment, not a release" in one["notes"]
        assert one["guarantee"].startswith("none")

    def test_bounds_from_the_data_are_not_private(self, run: Run) -> None:
        code, told, _ = run("mean", *sets("bounds=from-data", "columns=age"))
        assert code == 0
        assert told["guarantee"].startswith("none")
        assert any("not private" in note for note in told["notes"])

    def test_the_result_is_written_too(self, run: Run, tmp_path: Path) -> None:
        out = tmp_path / "result.json"
        _, told, err = run("mean", *sets(BOUNDS, "columns=age"), "--out", str(out))
        assert json.loads(out.read_text()) == told
        assert err == f"wrote {out}: {out.stat().st_size:,} bytes\n"

    def test_people_read_lines(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = ["--data", str(folder / "people.csv"), "--epsilon", "2"]
        assert main(["curate", "histogram", *data, *sets(LABELS, "column=town")]) == 0
        printed = capsys.readouterr().out
        assert "histogram of town, 2,000 rows, epsilon 2, trusted curator" in printed
        assert "Guarantee: 2-differentially private" in printed

    def test_the_list(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["curate", "--list"]) == 0
        printed = capsys.readouterr().out
        assert all(f"{name}: " in printed for name in LEARNERS)
        assert main(["curate", "--list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["learners"]
        assert [one["name"] for one in listed] == list(LEARNERS)


AGE = sets("bounds=age:0:100", "columns=age")
BAD: list[tuple[str, list[str], str]] = [
    ("nothing", [], "learner"),
    ("mean", sets("columns=age"), "bounds"),
    ("mean", sets("bounds=age:0:100"), "columns"),
    ("mean", sets("bounds=age:0:100", "columns="), "columns"),
    ("mean", sets("bounds=age:0:100", "columns=age,age"), "columns"),
    ("mean", sets("bounds=age:0:100", "columns=shoe"), "'shoe'"),
    ("mean", sets("bounds=shoe:0:100", "columns=shoe"), "'shoe'"),
    ("mean", sets("bounds=age:100:0", "columns=age"), "bounds"),
    ("mean", sets("bounds=age:0", "columns=age"), "bounds"),
    ("mean", sets("bounds=age:0:x", "columns=age"), "bounds"),
    ("mean", sets("bounds=age", "columns=age"), "bounds"),
    ("mean", sets("bounds=age:0:nan", "columns=age"), "bounds"),
    ("mean", sets("bounds=age:30:40", "columns=age"), "column 'age': expected values in 30 .. 40"),
    ("mean", sets("bounds=town:0:1", "columns=town"), "column 'town': expected a number"),
    ("mean", [*AGE, *sets("outside=maybe")], "outside"),
    ("mean", [*AGE, *sets("colour=red")], "colour"),
    ("mean", [*AGE, *sets("confidence=1")], "confidence"),
    ("mean", [*AGE, "--schema", "none.toml"], "none.toml"),
    ("mean", [*AGE, "--out", "here.csv"], "*.json"),
    ("mean", [*AGE, "--out", "no/such/folder/here.json"], "folder"),
    ("mean", [*AGE, "--seed", "-1"], "seed"),
    ("histogram", sets("labels=town:north|south", "column=town"), "column 'town'"),
    ("histogram", sets("labels=town:north", "column=town"), "labels"),
    ("histogram", sets("bounds=age:0:100", "column=age", "bins=0"), "bins"),
    ("histogram", sets("bounds=age:0:100", "column=town"), "'town'"),
    ("agnostic", sets(BOUNDS, LABELS), "label"),
    ("agnostic", ["--label", "rich", *sets(BOUNDS)], "'rich'"),
    ("agnostic", ["--label", "town", *sets(BOUNDS, LABELS)], "town"),
    ("agnostic", ["--label", "rich", *sets("labels=rich:no|yes")], "columns"),
    ("adaboost", ["--label", "rich", *sets(BOUNDS, LABELS, "rounds=0")], "rounds"),
    ("adaboost", ["--label", "rich", *sets(BOUNDS, LABELS, "edge=1")], "edge"),
    ("adaboost", ["--label", "rich", *sets(BOUNDS, LABELS, "cap=1.5")], "cap"),
    ("parity", ["--label", "rich", *sets(BOUNDS, LABELS)], "'age'"),
    ("logistic", ["--label", "rich", *sets(BOUNDS, LABELS, "mechanism=x")], "mechanism"),
    ("synopsis", sets(BOUNDS), "columns"),
    ("synopsis", sets(LABELS, "way=3"), "way"),
    ("synopsis", sets(LABELS, "method=x"), "method"),
]


@pytest.mark.parametrize(("learner", "words", "what"), BAD)
def test_bad_input_is_one_line_and_nothing_is_drawn(
    run: Run, monkeypatch: pytest.MonkeyPatch, learner: str, words: list[str], what: str
) -> None:
    def refuse(self: SystemWords, count: int) -> None:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")

    monkeypatch.setattr(SystemWords, "take", refuse)
    code, told, err = run(learner, *words)
    assert code == 2
    assert what in told["failure"]["message"]
    assert err == f"askance: {told['failure']['message']}\n"


@pytest.mark.parametrize("cell", ["1e400", "-1e99", "nan", "inf", "", "?", "seven"])
def test_a_cell_without_a_number_is_named_by_its_row(folder: Path, run: Run, cell: str) -> None:
    (folder / "odd.csv").write_text(f"age,name\n7,a\n{cell},b\n9,c\n")
    code, told, _ = run("mean", *AGE, data="odd.csv")
    assert code == 2
    assert "row 2 the first" in told["failure"]["message"]
    assert cell == "" or cell not in told["failure"]["message"].split("(--outside")[0].split()


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "much"])
def test_an_epsilon_is_above_nought(run: Run, epsilon: str) -> None:
    code, told, _ = run("mean", *AGE, epsilon=epsilon)
    assert code == 2
    assert "epsilon" in told["failure"]["message"]


@pytest.mark.parametrize("missing", ["a learner's name", "--data", "--epsilon"])
def test_what_is_needed_is_said(
    capsys: pytest.CaptureFixture[str], folder: Path, missing: str
) -> None:
    words = {
        "a learner's name": ["mean"],
        "--data": ["--data", str(folder / "people.csv")],
        "--epsilon": ["--epsilon", "1"],
    }
    given = [word for name, part in words.items() if name != missing for word in part]
    assert main(["curate", *given]) == 2
    assert f"expected {missing}" in capsys.readouterr().err


class TestNumbersThatAreLargeBesideTheirRange:
    """Postcodes, say: to six digits all bins, cuts and averages would look the same."""

    POSTCODES = ("--set", "bounds=code:1000000:1000010,y:0:1")

    @pytest.fixture
    def codes(self, folder: Path) -> str:
        lines = [f"{1000000 + row % 10},{int(row % 10 > 4)}" for row in range(PEOPLE)]
        (folder / "codes.csv").write_text("\n".join(["code,y", *lines]))
        return "codes.csv"

    def test_every_bin_has_its_count(self, run: Run, codes: str) -> None:
        _, told, _ = run(
            "histogram", *self.POSTCODES, "--set", "column=code", data=codes, epsilon="100"
        )
        counts = told["result"]["counts"]
        assert [round(one["estimate"]) for one in counts.values()] == [200] * 10
        assert next(iter(counts)) == "1000000 .. 1000001"

    def test_bins_that_cannot_be_told_apart_are_refused(self, run: Run, codes: str) -> None:
        words = ("--set", "column=code", "--set", "bins=10000")
        close = ("--set", "bounds=code:1000000:1000000.000001")
        code, _, errors = run("histogram", *close, *words, data=codes)
        assert code == 2
        assert "bins: expected fewer" in errors

    def test_an_average_and_a_cut_are_told_to_their_digits(
        self, run: Run, codes: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        common = ("--data", str(folder / codes), "--epsilon", "100", *self.POSTCODES, "--seed", "1")
        assert main(["curate", "mean", "--set", "columns=code", *common]) == 0
        assert "  code  1,000,004.50" in capsys.readouterr().out
        assert main(["curate", "agnostic", "--label", "y", *common]) == 0
        assert "code >= 1000004.375" in capsys.readouterr().out


def test_a_budget_is_not_rounded_down_in_the_guarantee(run: Run) -> None:
    words = ("--set", BOUNDS, "--set", "columns=age")
    _, told, _ = run("mean", *words, epsilon="1.0000004")
    assert told["guarantee"].startswith("1.0000004-differentially private")


def test_an_average_of_clipped_numbers_says_so(run: Run) -> None:
    words = ("--set", "bounds=age:30:40", "--set", "columns=age", "--set", "outside=clip")
    _, told, _ = run("mean", *words)
    assert any("moved to them" in note for note in told["notes"])


class TestIntervals:
    """Intervals of the budget's share, jointly for all answers."""

    def test_two_columns_share_the_budget_and_the_confidence(self, run: Run) -> None:
        words = ("--set", BOUNDS, "--set", "columns=age,hours")
        _, told, _ = run("mean", *words, epsilon="2")
        step = fine_step(Fraction(80))
        for name, span in (("age", 100), ("hours", 80)):
            reach = Laplace(Fraction(1), int(span / step)).half_width("0.95", 2)
            found = told["result"]["means"][name]
            width = (found["high"] - found["low"]) / 2
            assert width == pytest.approx(float(reach * step / PEOPLE + step / 2), rel=1e-6)

    def test_cells_share_the_confidence(self, run: Run) -> None:
        words = ("--set", LABELS, "--set", "column=town", "--set", "confidence=0.9")
        _, told, _ = run("histogram", *words, epsilon="0.5")
        reach = Laplace(Fraction(1, 2), 2).half_width("0.9", 3)
        for found in told["result"]["counts"].values():
            assert found["high"] - found["low"] == 2 * reach


SPENDERS = {
    "mean": sets(BOUNDS, "columns=age,hours"),
    "histogram": sets(LABELS, "column=town"),
    "agnostic": ("--label", "rich", *sets(BOUNDS, LABELS)),
    "adaboost": ("--label", "rich", *sets(BOUNDS, LABELS)),
    "logistic": ("--label", "rich", *sets(BOUNDS, LABELS)),
    "synopsis": sets(LABELS),
}


@pytest.mark.parametrize("learner", SPENDERS)
def test_a_learner_that_spends_twice_what_it_was_given_is_found_out(
    learner: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(learner, *SPENDERS[learner])[0] == 0
    honest = CuratorEntry.curate

    def careless(entry: CuratorEntry, request: CuratorRequest) -> Curated:
        return honest(entry, replace(request, epsilon=request.epsilon * Fraction(11, 10)))

    monkeypatch.setattr(CuratorEntry, "curate", careless)
    code, told, errors = run(learner, *SPENDERS[learner])
    assert code == 1
    assert "within its budget" in errors
    assert "result" not in told


def test_a_logistic_coefficient_is_of_a_feature_between_minus_1_and_1(
    run: Run, folder: Path
) -> None:
    """With all the budget there is, the regularised loss is flat there, in units of the norm."""
    asked = ("--label", "rich", *sets(BOUNDS, LABELS, "regularisation=0.01"))
    _, told, _ = run("logistic", *asked, epsilon="1000000")
    names = ["age", "hours", "town=north", "town=south", "town=(missing)", "(intercept)"]
    c = np.array([told["result"]["coefficients"][name] for name in names])
    people = [line.split(",") for line in (folder / "people.csv").read_text().split()[1:]]
    x = np.array(
        [
            [
                int(age) / 50 - 1,
                float(hours) / 40 - 1,
                *(2 * (town == each) - 1 for each in ("north", "south", "?")),
                1,
            ]
            for age, hours, town, _ in people
        ]
    )
    y = np.array([1 if one[3] == "yes" else -1 for one in people])
    missing = 1 / (1 + np.exp(y * (x @ c)))
    slope = 0.01 * c * len(names) - (y * missing) @ x / PEOPLE
    assert np.abs(slope).max() < 1e-4
    assert np.abs(c).max() > 0.5
