"""Digests of small studies' transcripts, as they were recorded: one per learner.

`recorded_digests.json` holds each learner's arguments and its digest. A digest covers the signed
study, every question, its users and all reports, so it changes if and only if one of these does. It
does not depend on the fleet, on names in the code or on the folders that hold it.

A change that is meant (a field that studies sign, another rule of planning) records them anew, from
the root of the repository, and its commit says why:

    PYTHONPATH=.:protos:client:aggregator:simulation python -m tests.simulation.recorded_digests
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from askance_simulation.experiments import named, run_trial
from askance_simulation.randomness.seeds import Seed

FILE = Path(__file__).parent / "recorded_digests.json"
Case = dict[str, Any]


def cases() -> dict[str, Case]:
    """Return the recorded cases by learner."""
    recorded: dict[str, Case] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def digest_of(learner: str, case: Case, fleet: str) -> str:
    """Run a learner's case on a fleet and return the digest of its transcript."""
    made = named(learner, epsilon=case["epsilon"], users=case["users"], settings=case["settings"])
    seed = Seed.of(case["seed"])
    population = made.people(seed / "trial" / 0 / "population")
    trial = run_trial(made.study(population), population, fleet=fleet, seed=seed)
    return trial.transcript.digest


def record() -> None:
    """Write the digests of the present code, with the arguments as they are in the file."""
    recorded = cases()
    for learner, case in recorded.items():
        case["digest"] = digest_of(learner, case, "columns")
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
