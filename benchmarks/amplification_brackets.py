"""Ends of shuffled batches beside the bracket of a reference implementation, at ten settings.

The reference is computeamplification.py of github.com/apple/ml-shuffling-amplification (Feldman,
McMillan, Talwar 2021): its bracket is of one law that bounds each randomizer of a local epsilon.
Ours are of two such randomizers, one bit and 16-ary response, over all populations; their upper
ends are at most the reference's where it is right and they are no looser. Nothing is drawn.

    python benchmarks/amplification_brackets.py --reference FOLDER [--quick] [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from askance_aggregator.amplification import Ends, epsilon_ends
from askance_aggregator.families import k_ary_response, randomized_response
from askance_client.accounting import NANO_NATS_PER_NAT

SETTINGS = (
    ("0.5", 10**3, 6),
    ("0.5", 10**5, 9),
    ("1", 10**3, 6),
    ("1", 10**4, 9),
    ("1", 10**6, 6),
    ("2", 10**3, 6),
    ("2", 10**5, 6),
    ("4", 10**4, 6),
    ("4", 10**5, 6),
    ("4", 10**6, 9),
)
"""Local epsilon, answers, and -log10 of delta."""
QUICK = (("1", 10**3, 6), ("4", 10**4, 6))
STEPS = 1000  # parts of the answers that the reference takes together
ITERATIONS = 12  # halvings of its search


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reference", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="two settings")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    reference = load(arguments.reference / "computeamplification.py")
    rows = [row(reference, *each) for each in (QUICK if arguments.quick else SETTINGS)]
    if arguments.json:
        print(json.dumps(rows))
        return
    print("local  answers  delta   reference             s     bit                   s     16-ary")
    for each in rows:
        bracket, bit, many = each["reference"], each["bit"], each["16-ary"]
        print(
            f"{each['local']:>5}  {each['answers']:>7}  {each['delta']:.0e}"
            f"   {bracket[0]:.6f}..{bracket[1]:.6f}  {bracket[2]:4.1f}"
            f"   {bit[0]:.6f}..{bit[1]:.6f}  {bit[2]:4.2f}"
            f"   {many[0]:.6f}..{many[1]:.6f}  {many[2]:4.2f}"
            f"   {'tighter' if each['tighter'] else 'LOOSER'}"
        )


def load(path: Path) -> Any:
    """Import the reference from its file."""
    spec = importlib.util.spec_from_file_location("computeamplification", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(reference: Any, local: str, answers: int, decades: int) -> dict[str, Any]:
    """Compute all three brackets, each with its seconds."""
    delta = Fraction(1, 10**decades)
    nano = int(Fraction(local) * NANO_NATS_PER_NAT)
    step = max(1, answers // STEPS)

    def bracket(upper: bool) -> float:
        return float(
            reference.numericalanalysis(
                answers, float(local), float(delta), ITERATIONS, step, upper
            )
        )

    start = time.perf_counter()
    known = (bracket(False), bracket(True), time.perf_counter() - start)
    bit = timed(lambda: epsilon_ends(randomized_response(nano), answers, delta))
    many = timed(lambda: epsilon_ends(k_ary_response(16, nano), answers, delta))
    return {
        "local": local,
        "answers": answers,
        "delta": float(delta),
        "reference": known,
        "bit": bit,
        "16-ary": many,
        "tighter": max(bit[1], many[1]) <= known[1],
    }


def timed(compute: Callable[[], Ends]) -> tuple[float, float, float]:
    """Return both ends and the seconds."""
    start = time.perf_counter()
    ends = compute()
    return ends.lower, ends.upper, time.perf_counter() - start


if __name__ == "__main__":
    main()
