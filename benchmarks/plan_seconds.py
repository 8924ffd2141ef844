"""Seconds of a plan: every learner of the catalogue, at small and at large epsilons.

Each plan is made in a process of its own, forked once the package is loaded: nothing is kept from
another plan, and what a plan alone loads (the solver) counts. A figure is the processor time of
that process. Beside the catalogue stand a mean's other objectives and a large category, whose
tables and sizes take the planner the longest. No user is asked, so there is no seed.

    python benchmarks/plan_seconds.py [--epsilons .1 1 4 9 12 15] [--learners mean] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence

import askance as ask
from askance_aggregator.learners import learners

EPSILONS = ("0.1", "1", "4", "9", "12", "15")
QUICK = ("1",)
MOST_S = 3.0  # that a plan may take
VARIANTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("mean", {"objective": "conditional"}),
    ("mean", {"objective": "conditional", "missing": "default"}),
    ("mean", {"objective": "prior", "prior": "small"}),
    ("mean", {"objective": "prior", "prior": "small", "missing": "default"}),
    ("mean", {"missing": "default"}),
    ("mean-vector", {"norm": "l2"}),
    ("frequency", {"cells": "1000", "tau": "0.05"}),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, and print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilons", nargs="+", default=None, help="nats")
    parser.add_argument("--learners", nargs="+", default=None, help="names; default: all")
    parser.add_argument("--quick", action="store_true", help="one epsilon")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    epsilons = given.epsilons or (QUICK if given.quick else EPSILONS)
    plans: list[tuple[str, Mapping[str, str]]] = [(entry.name, {}) for entry in learners()]
    plans += VARIANTS
    if given.learners is not None:
        plans = [(name, settings) for name, settings in plans if name in given.learners]
    rows: list[dict[str, object]] = []
    most = 0.0
    if not given.json:
        print("| plan |" + "".join(f" {epsilon} nats |" for epsilon in epsilons))
        print("|---|" + "---:|" * len(epsilons))
    for name, settings in plans:
        took = [seconds(name, settings, epsilon) for epsilon in epsilons]
        most = max(most, *took)
        title = " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
        rows.append({"plan": title, "seconds": dict(zip(epsilons, took, strict=True))})
        if not given.json:
            print(f"| {title} |" + "".join(f" {each:.2f} |" for each in took), flush=True)
    if given.json:
        print(json.dumps({"rows": rows, "most": most}))
    else:
        print(f"\nthe longest took {most:.2f} s of at most {MOST_S:g}")
    return 0 if most <= MOST_S else 1


def seconds(name: str, settings: Mapping[str, str], epsilon: str) -> float:
    """Return the processor seconds of one plan, in a process that has made no other."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        begun = time.process_time()
        try:
            ask.plan(name, epsilon=epsilon, settings=dict(settings))
            os.write(write, repr(time.process_time() - begun).encode())
        except ask.AskanceError as refusal:
            print(f"{name}, {epsilon} nats: {refusal}", file=sys.stderr)
            os.write(write, repr(time.process_time() - begun).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        raise SystemExit(f"{name} at {epsilon} nats ended without a figure")
    return float(text)


if __name__ == "__main__":
    raise SystemExit(main())
