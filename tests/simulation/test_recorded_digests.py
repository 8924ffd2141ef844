"""Transcripts of the catalogue's learners are, to the bit, those that were recorded."""

from __future__ import annotations

import pytest

from askance_aggregator.learners import learners
from askance_simulation.families import fused
from tests.simulation.recorded_digests import cases, digest_of

CASES = cases()
# Learners for what is slow: of two rounds, and of one.
SAMPLE = ("masked-parity", "mean")


def test_every_learner_of_the_catalogue_is_recorded() -> None:
    assert set(CASES) == {entry.name for entry in learners()}


@pytest.mark.parametrize("learner", CASES)
def test_columns_give_the_recorded_transcript(learner: str) -> None:
    assert digest_of(learner, CASES[learner], "columns") == CASES[learner]["digest"]


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
    [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.slow]) for name in CASES],
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
