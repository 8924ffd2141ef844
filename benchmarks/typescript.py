"""Speeds of the device in TypeScript beside Python: draws, losses and evaluations per second.

Draws include their coins from the operating system; losses include decoding the randomizer's
message, as a device does with each question. Seconds are the processor's: one process of each
language, one after the other. The last line is about the minified bundle.

    (cd devices/typescript && npm ci && npm run build && npm run bundle)
    python benchmarks/typescript.py [--seconds 0.5] [--quick]
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from askance_aggregator.encoding import encode_query, encode_randomizer, encode_schema
from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
)
from askance_aggregator.queries import bucketize, category, dot, predicate, real, vector
from askance_client.accounting import charge, exp_bounds
from askance_client.codec import decode_randomizer, parse
from askance_client.queries import Bits, Category, Integer, Query, Real, Schema
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
    SystemCoins,
)
from askance_protos.v1 import randomizer_pb2

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "devices" / "typescript"
NANO = 10**9
HALF = COIN_SPACE // 2
SCHEMA = Schema(
    "people",
    1,
    age=Integer(0, 120),
    income=Real(0, 10**6, frac_bits=8),
    state=Category([f"state {number}" for number in range(51)]),
    flags=Bits(1024),
)
RECORD = {"age": 41, "income": "52300.25", "state": "state 7", "flags": "01" * 512}


def wide_channel(size: int) -> Channel:
    """Make a table of so many levels and symbols, with the truth twice as likely as another."""
    even = COIN_SPACE // (size + 1)
    own = COIN_SPACE - even * (size - 1)
    return Channel(tuple(tuple(own if x == y else even for y in range(size)) for x in range(size)))


def randomizers() -> dict[str, Randomizer]:
    """Make one usual and one great randomizer per family."""
    t = HALF + HALF // (1 << 9)
    return {
        "table, 16 levels": wide_channel(16),
        "table, 720 levels": wide_channel(720),
        "k-ary, 2^20 cells": k_ary_response(1 << 20, NANO),
        "linear hashing, 2^20 cells": linear_hashing(1 << 20, NANO),
        "subset selection, 100 cells": SubsetSelection(100, 27, HALF),
        "subset selection, 2^20 cells": SubsetSelection(1 << 20, 2730, t),
        "hadamard sign, 32,767 values": hadamard_sign(32_767, NANO),
        "signed subset, 100 values": SignedSubsetSelection(100, 50, t),
        "signed subset, 32,767 values": SignedSubsetSelection(32_767, 8_192, t),
        "hypercube, 16 components": hypercube_response(16, NANO),
        "hypercube, 1,024 components": hypercube_response(1024, NANO),
        "codebook, 8 components": RandomCodebook(8, 1 << 16, 4, 40, t),
        "codebook, 1,024 components": RandomCodebook(1024, 1 << 30, 31, 310, t),
    }


def queries() -> dict[str, Query]:
    """Make one query per kind of work."""
    age, income, flags = SCHEMA["age"], SCHEMA["income"], SCHEMA["flags"]
    bits = [flags[i] for i in range(64)]
    return {
        "predicate, 1 comparison": predicate(age > 40),
        "category, 64 edges": category(bucketize(age, list(range(1, 65)))),
        "real, product and sum": real(age * 3 + income * 2, 0, 1 << 20),
        "dot of 1,024 bits": real(dot([i % 17 for i in range(1024)], flags), 0, 1 << 14),
        "vector of 64 products": vector([age * bit + i for i, bit in enumerate(bits)], 0, 200),
    }


def per_second(call: Callable[[], object], seconds: float) -> float:
    """Count calls per second of the processor, over at least so many."""
    call()
    start, calls = time.process_time(), 0
    while time.process_time() - start < seconds:
        call()
        calls += 1
    return calls / (time.process_time() - start)


def python_speeds(seconds: float) -> dict[str, dict[str, float]]:
    """Measure the Python client."""
    coins, request = SystemCoins(), bytes(32)
    draws, losses, evaluations = {}, {}, {}
    for name, randomizer in randomizers().items():
        data = encode_randomizer(randomizer).SerializeToString()
        level = int(randomizer.levels // 3)

        def draw(made: Randomizer = randomizer, own: int = level) -> bytes:
            return made.randomize(own, coins.words(request, made.coins))

        def loss(wire: bytes = data) -> int:
            charge.cache_clear()  # a question that is asked for the first time
            exp_bounds.cache_clear()
            return decode_randomizer(parse(randomizer_pb2.Randomizer, wire)).loss.nano_nats

        draws[name], losses[name] = per_second(draw, seconds), per_second(loss, seconds)
    record = SCHEMA.encode(RECORD)
    for name, query in queries().items():
        vectors = query.kind.name == "VECTOR"

        def evaluate(made: Query = query, many: bool = vectors) -> object:
            return made.evaluate_vector(record) if many else made.evaluate(record)

        evaluations[name] = per_second(evaluate, seconds)
    return {"draws": draws, "losses": losses, "evaluations": evaluations}


def typescript_speeds(seconds: float) -> dict[str, dict[str, float]]:
    """Ask the built package."""
    asked: dict[str, Any] = {
        "seconds": seconds,
        "randomizers": [
            {
                "name": name,
                "bytes": encode_randomizer(made).SerializeToString().hex(),
                "level": f"{int(made.levels // 3):x}",
            }
            for name, made in randomizers().items()
        ],
        "queries": [
            {
                "name": name,
                "schema": encode_schema(SCHEMA).SerializeToString().hex(),
                "bytes": encode_query(made).SerializeToString().hex(),
                "record": RECORD,
            }
            for name, made in queries().items()
        ],
    }
    program = ["node", str(PACKAGE / "dist" / "benchmarks" / "speeds.js")]
    answer = subprocess.run(
        program, input=json.dumps(asked) + "\n", capture_output=True, text=True, check=True
    )
    speeds: dict[str, dict[str, float]] = json.loads(answer.stdout)
    return speeds


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Speeds of the device in TypeScript.")
    parser.add_argument("--seconds", type=float, default=0.5, help="per number")
    parser.add_argument("--quick", action="store_true", help="0.05 s per number")
    chosen = parser.parse_args(arguments)
    seconds = 0.05 if chosen.quick else chosen.seconds
    ours, theirs = typescript_speeds(seconds), python_speeds(seconds)
    for what, found in ours.items():
        print(f"{f'{what} per second':<36}{'TypeScript':>12}{'Python':>12}{'ratio':>8}")
        for name, speed in found.items():
            python = theirs[what][name]
            print(f"{name:<36}{speed:>12,.0f}{python:>12,.0f}{speed / python:>8.1f}")
        print()
    bundle = (PACKAGE / "dist" / "askance-client.min.js").read_bytes()
    print(f"minified bundle: {len(bundle):,} bytes, {len(gzip.compress(bundle)):,} by gzip")


if __name__ == "__main__":
    main()
