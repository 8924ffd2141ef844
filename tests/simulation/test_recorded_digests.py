"""Transcripts and hypotheses of the catalogue's learners are those that were recorded."""

from __future__ import annotations

import json

import pytest

from askance_aggregator.learners import find, hypothesis_from_json, hypothesis_json, learners
from askance_simulation.experiments import named, run_trial
from askance_simulation.families import fused
from askance_simulation.randomness import Seed
from tests.simulation.recorded_digests import cases, digest_of, hypothesis_text, run_case

CASES = cases()
# Learners for what is slow: of two rounds, and of one.
SAMPLE = ("masked-parity", "mean")


def test_every_learner_of_the_catalogue_is_recorded() -> None:
    assert set(CASES) == {entry.name for entry in learners()}


@pytest.mark.parametrize("learner", CASES)
def test_columns_give_the_recorded_transcript_and_hypothesis(learner: str) -> None:
    digest, hypothesis = run_case(learner, CASES[learner], "columns")
    assert digest == CASES[learner]["digest"]
    # The last digits of a float are a library's of linear algebra.
    assert rounded(hypothesis) == rounded(hypothesis_text(learner))


@pytest.mark.parametrize("learner", CASES)
def test_a_recorded_hypothesis_is_read_and_written_again_to_the_byte(learner: str) -> None:
    text = hypothesis_text(learner)
    read = hypothesis_from_json(learner, json.loads(text))
    assert json.dumps(hypothesis_json(read)) == text


def rounded(text: str) -> str:
    """Return JSON text with nine digits of each number that is no integer."""
    content = json.loads(text, parse_float=lambda digits: float(f"{float(digits):.9g}"))
    return json.dumps(content)


@pytest.mark.parametrize(
    "learner",
    [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.slow]) for name in CASES],
)
def test_kernels_give_the_recorded_transcript(
    learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(fused, "LEAST_USERS", 0)
    assert digest_of(learner, CASES[learner], "columns") == CASES[learner]["digest"]


@pytest.mark.parametrize(
    "learner",
    [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.nightly]) for name in CASES],
)
def test_devices_give_the_recorded_transcript(learner: str) -> None:
    assert digest_of(learner, CASES[learner], "objects") == CASES[learner]["digest"]


@pytest.mark.parametrize("learner", SAMPLE)
def test_devices_over_grpc_give_the_recorded_transcript(learner: str) -> None:
    """The others over gRPC are held to the devices in `fleets/test_fleets.py`."""
    assert digest_of(learner, CASES[learner], "grpc") == CASES[learner]["digest"]


def test_another_seed_gives_another_transcript() -> None:
    case = CASES["frequency"]
    assert digest_of("frequency", case | {"seed": case["seed"] + 1}, "columns") != case["digest"]


def test_a_study_that_left_no_ways_to_its_plan_asks_what_it_asked() -> None:
    """The transcript of quantiles that signs no `ways`, with the present sizes of its cells."""
    case = CASES["quantiles"]
    made = named("quantiles", epsilon=case["epsilon"], users=1_000, settings=case["settings"])
    seed = Seed.of(case["seed"])
    population = made.people(seed / "trial" / 0 / "population")
    study = made.study(population)
    learner = find("quantiles").build(population.schema, case["settings"])
    object.__setattr__(study, "learner", learner)
    before = "sha256:455b58fe68160b94ad6a4b32ffa98fed4e04477185381e0c31ede5393828568c"
    digest = run_trial(study, population, fleet="columns", seed=seed).transcript.digest
    assert digest == before
    assert CASES["quantiles"]["digest"] != before
