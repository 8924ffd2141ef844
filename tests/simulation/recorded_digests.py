"""Digests of small studies' transcripts and their hypotheses, as they were recorded.

`recorded_digests.json` holds each learner's arguments and its digest. A digest covers the signed
study, every question, its users and all reports, so it changes if and only if one of these does. It
does not depend on the fleet, on names in the code or on the folders that hold it.
`recorded_hypotheses/` holds the JSON text of each hypothesis.

A change that is meant (a field that studies sign, another rule of planning) records them anew, from
the root of the repository, and its commit says why:

    PYTHONPATH=.:protos:client:aggregator:simulation python -m tests.simulation.recorded_digests
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from askance_aggregator.learners import hypothesis_json
from askance_simulation.experiments import named, run_trial
from askance_simulation.randomness import Seed

FILE = Path(__file__).parent / "recorded_digests.json"
HYPOTHESES = Path(__file__).parent / "recorded_hypotheses"
Case = dict[str, Any]


def cases() -> dict[str, Case]:
    """Return the recorded cases by learner."""
    recorded: dict[str, Case] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def digest_of(learner: str, case: Case, fleet: str) -> str:
    """Run a learner's case on a fleet and return the digest of its transcript."""
    return run_case(learner, case, fleet)[0]


def run_case(learner: str, case: Case, fleet: str) -> tuple[str, str]:
    """Run a learner's case on a fleet.

    Returns:
      The digest of its transcript, and its hypothesis as JSON text.
    """
    made = named(learner, epsilon=case["epsilon"], users=case["users"], settings=case["settings"])
    seed = Seed.of(case["seed"])
    population = made.people(seed / "trial" / 0 / "population")
    trial = run_trial(made.study(population), population, fleet=fleet, seed=seed)
    return trial.transcript.digest, json.dumps(hypothesis_json(trial.outcome.hypothesis))


def hypothesis_text(learner: str) -> str:
    """Return the recorded JSON text of a learner's hypothesis."""
    return (HYPOTHESES / f"{learner}.json").read_text(encoding="utf-8").removesuffix("\n")


def record() -> None:
    """Write what the present code gives, for the arguments as they are in the file."""
    recorded = cases()
    for learner, case in recorded.items():
        case["digest"], hypothesis = run_case(learner, case, "columns")
        (HYPOTHESES / f"{learner}.json").write_text(hypothesis + "\n", encoding="utf-8")
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
