"""The benchmark of the randomizers states what it measures, and says so when a claim is broken."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from askance_aggregator.families import TableFamily, family_of, linear_hashing, subset_selection
from askance_aggregator.table_design import Conditional, Minimax, design_table
from askance_client.device import Examiner
from askance_client.exact_laws import contains
from askance_client.randomizers import COIN_SPACE

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NAT = 10**9
Load = Callable[[str], Any]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def program(load: Load, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the program in miniature: tables of 5 levels, few users and cells."""
    module: ModuleType = load("randomizers")
    small = replace(module.QUICK, cells=(16, 64), values=(4,), means=20)
    monkeypatch.setattr(module, "QUICK", small)
    monkeypatch.setattr(load("randomizer_means"), "LEVELS", 5)
    monkeypatch.setattr(load("randomizer_claims"), "CLOSE_TO_LIMIT", 1)  # rounding counts for more
    for name in ("randomizer_means", "randomizer_cells"):
        monkeypatch.setattr(load(name), "USERS", 500)
    return module


@pytest.mark.parametrize("eps", [0.5, 1, 3])
@pytest.mark.parametrize("k", [5, 40])
def test_the_optimum_is_that_of_the_best_subset_selection(load: Load, k: int, eps: float) -> None:
    """To the rounding of integers, and no other randomizer of cells is below."""
    optimum = load("randomizer_cells").optimum(k, eps)
    nano = round(eps * NAT)
    assert optimum == pytest.approx(
        float(family_of(subset_selection(k, nano)).frequency_variance()), rel=1e-9
    )
    assert float(family_of(linear_hashing(k, nano)).frequency_variance()) >= optimum


@pytest.mark.parametrize("objective", [Minimax(), Conditional()])
def test_theory_is_the_variance_of_the_people_at_hand(
    load: Load, objective: Minimax | Conditional, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users on the levels: the mean of their own variances. Users between two: as rounded."""
    means = load("randomizer_means")
    monkeypatch.setattr(means, "LEVELS", 5)
    table = design_table(5, NAT, objective)
    channel, values = table.channel, table.values
    each = [float(TableFamily(channel).conditional_variance(level, values)) for level in range(5)]
    on_levels = np.array([-1, -1, -0.5, 0.5])
    expected = (2 * each[0] + each[1] + each[3]) / 4
    assert means._theory(table, on_levels) == pytest.approx(expected)
    half = (
        TableFamily(channel).second_moment(2, values)
        + TableFamily(channel).second_moment(3, values)
    ) / 2
    grid = TableFamily(channel).moved_grid(values)
    between = half - ((grid[2] + grid[3]) / 2) ** 2
    assert means._theory(table, np.array([0.25])) == pytest.approx(float(between))


def test_adult_is_asked_of_those_who_did_not_make_the_prior(load: Load, tmp_path: Path) -> None:
    means = load("randomizer_means")
    file = tmp_path / "adult.csv"
    lines = ["age,hours_per_week", "17,1", "90,99", "17,50", "53.5,99"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    age, hours = means.of_adult(file)
    assert age.numbers.tolist() == [1, 0]
    assert age.prior.weights == (1, *[Fraction(0)] * (means.LEVELS - 1))
    assert hours.numbers.tolist() == [1, 1]
    assert hours.prior.weights[0] == Fraction(1, 2)


def test_every_case_is_answered_by_a_device(load: Load) -> None:
    devices = load("randomizer_devices")
    names = []
    for case in devices.cases():
        asked = devices._asked(case, 1)
        device = devices._device(asked.study, case.values, Examiner())
        assert devices._answered(device, asked.payloads[0]) > 0
        assert len(asked.payloads[0]) < devices.MOST_BYTES
        names.append((case.name, case.randomizer.name))
    assert len(set(names)) == len(names)
    assert {family for _, family in names} == {
        "channel",
        "k-ary",
        "subset-selection",
        "linear-hashing",
        "hadamard-sign",
        "signed-subset-selection",
        "hypercube",
        "codebook",
    }


def test_a_set_s_twin_reports_the_same_set_as_a_bitmap(load: Load) -> None:
    sets = load("randomizer_sets")
    shorter = 0
    for case in sets.cases():
        coins = [place * (COIN_SPACE // case.chosen.coins) for place in range(case.chosen.coins)]
        report, bitmap = (kind.randomize(5, coins) for kind in (case.chosen, case.twin))
        assert len(bitmap) == case.twin.width == -(-case.chosen.items // 8)
        items = range(case.chosen.items)
        members = [item for item in items if contains(case.chosen, report, item)]
        assert members == [item for item in items if contains(case.twin, bitmap, item)]
        shorter += len(report) < len(bitmap)
    assert shorter == 6


def test_a_refusal_is_no_answer(load: Load) -> None:
    devices = load("randomizer_devices")
    case = next(devices.cases())
    asked = devices._asked(case, 1)
    with pytest.raises(AssertionError, match="refused"):
        devices._answered(devices._device(asked.study, case.values, Examiner()), b"no request")


def test_times_are_taken_in_a_process_of_their_own(load: Load) -> None:
    devices = load("randomizer_devices")
    case = next(devices.cases())
    asked = devices._asked(case, 3)
    given = (devices._times, asked, case.values, asked, case.values)
    times = devices._in_a_new_process(*given)
    assert (len(times["new"]), len(times["again"])) == (3, 2)


def test_a_claim_is_held_against_the_worst(load: Load) -> None:
    claims = load("randomizer_claims")
    (most,) = claims._most("a", [0.5, 0.9], 1)
    (least,) = claims._least("b", [0.5, 0.9], 0.6)
    assert (most.worst, most.holds) == (0.9, True)
    assert (least.worst, least.holds) == (0.5, False)
    assert not list(claims._most("nothing was measured", [], 1))


def test_what_is_told_is_what_is_claimed(
    program: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ["--quick", "--json", "--only", "means", "frequencies", "signed"]
    assert program.main([*given, "--plot", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["objective"] for row in told["means"]} == {"minimax", "conditional", "prior"}
    assert {row["k"] for row in told["frequencies"]} == {16, 64}
    assert sum(row["planned"] for row in told["signed"]) == 2, "one an epsilon"
    assert sum(row["promised"] for row in told["signed"]) == 2
    assert all(claim["holds"] for claim in told["claims"])
    absent = {one["peer"]: one["reason"] for one in told["skipped"]}
    assert absent["Adult"] == "no --adult FILE"
    assert absent["pure_ldp"] == "no --peers FOLDER"
    for name in ("means", "frequencies"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_broken_claim_is_an_exit_code(
    program: ModuleType,
    load: Load,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the optimum at 64 cells is claimed."""
    monkeypatch.setattr(load("randomizer_claims"), "NEAR_OPTIMUM", {64: 0.5})
    assert program.main(["--quick", "--only", "frequencies"]) == 1
    assert "NO" in capsys.readouterr().out


def test_peers_stand_beside_ours(
    program: ModuleType,
    load: Load,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Two rows of a peer: the raw one is the best of its kind, the other one is biased."""
    one = load("peers_accuracy").Accuracy(
        "pure_ldp", "1", "frequency", "some", "raw", 1.0, 64, 100, 9, 5.5, 0.1, 0.001, 0.002
    )
    other = replace(one, estimate="clipped, renormalised", n_mse=2.25, bias=0.01, bias_se=0.0001)
    monkeypatch.setattr(program, "peers_accuracy", lambda *_: ([one, other], []))
    given = ["--quick", "--only", "frequencies", "--plot", str(tmp_path)]
    assert program.main(given) == 0
    shown = capsys.readouterr().out
    assert "5.5 ± 0.1 pure_ldp" in shown
    assert "clipped, renormalised" in shown
    monkeypatch.setattr(program, "peers_accuracy", lambda *_: ([one, replace(other, bias=0.0)], []))
    assert program.main(given) == 1, "who is said to be biased and is not"


@pytest.mark.nightly
def test_devices_and_users_quickly(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Times are reported without a bound, since the machine may be shared."""
    load("randomizers").main(["--quick", "--json", "--only", "devices", "users"])
    told = json.loads(capsys.readouterr().out)
    assert len(told["devices"]) == 17
    assert told["users"]["holds"] is True
