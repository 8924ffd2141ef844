"""Means of vectors: n x E||error||^2 by epsilon and dimension, beside theory; a device's time.

Users are drawn from a pool of records, rounded and randomized as columns, each from coins of its
own; blocks go to disjoint users, and the learner concludes. `one` is a single component a user,
`all` one pattern of every component, `chosen` what the planner takes of them. Beside them is what
theory says: of the same three, and of epsilon divided over all components. Of l2 they are what
sign patterns would do; `balls.py` has the codebook that plans take.

    python benchmarks/vectors.py [--quick] [--json] [--plot FILE.png]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import tanh
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import HypercubeFamily, family_of, hypercube_response
from askance_aggregator.learners import (
    Answer,
    MeanVector,
    NonAdaptive,
    Question,
    mean_vector,
    vectors_schema,
)
from askance_aggregator.oracles import expectations
from askance_aggregator.planning.blocks import block_size, block_variance, laid_out
from askance_aggregator.queries import block_of, evaluate_vectors
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.messages import Conduct, Request, StudyTerms
from askance_client.randomizers import SystemCoins
from askance_simulation.families import draw
from askance_simulation.families.rounding import round_by_division
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.populations import unit_vectors
from askance_simulation.randomness import Seed

NAT = 10**9
POOL = 4096
USERS = 20_000
Floats = NDArray[np.float64]
Values = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Row:
    """Errors at one norm, dimension, epsilon and block size, as n x E||error||^2."""

    norm: str
    d: int
    eps: float
    size: str
    components: int
    measured: float
    theory: float
    divided: float  # theory of splitting epsilon over all components
    bias_squared: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and draw to the file that is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two dimensions and epsilons")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    given = parser.parse_args(arguments)
    dimensions = (16, 64) if given.quick else (16, 64, 256, 1000)
    epsilons = (1.0, 4.0) if given.quick else (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
    rows = [
        row
        for norm in ("linf", "l2")
        for d in dimensions
        for eps in epsilons
        for row in compared(norm, d, eps, trials=max(512 // d, 1))
    ]
    devices = [
        device_row(norm, d, size) for norm in ("linf", "l2") for d in dimensions for size in (4, d)
    ]
    if given.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "devices": devices}))
    else:
        print(table(rows, devices))
    if given.plot is not None:
        plot([row for row in rows if row.d == max(dimensions)], given.plot)
    return 0


def compared(norm: str, d: int, eps: float, trials: int) -> list[Row]:
    """Return the three block sizes."""
    people = unit_vectors(POOL, Seed.of(d), d, 100 if norm == "l2" else 20)
    pool = people.columns(0, POOL)
    learner = mean_vector(people.schema, norm=norm, missing="default")
    question = learner.batch.questions[0]
    t, nano = question.values, int(eps * NAT)
    half = float(question.spread) / 2
    values = evaluate_vectors(question.query, pool)
    means = np.array([float(value) for value in expectations(question, pool)])
    centre = concluded(learner, means)
    truth = np.array([np.asarray(pool.values[f"x{j}"]).mean() for j in range(d)]) / (1 << 16)
    rows = []
    for name, size in (("one", 1), ("chosen", block_size(t, nano)), ("all", t)):
        squares = []
        for trial in range(trials):
            answer = once(question, values, size, nano, np.random.default_rng([d, trial]))
            found = concluded(learner, answer)
            squares.append(USERS * float(np.square(found - centre).sum()))
        worst = t * half**2 * float(block_variance(t, size, nano))
        known = -(-t // size) * float(np.square(means).sum())
        rows.append(
            Row(
                norm=norm,
                d=d,
                eps=eps,
                size=name,
                components=size,
                measured=float(np.mean(squares)),
                theory=worst - known,
                divided=t * half**2 / tanh(eps / t / 2) ** 2 - float(np.square(means).sum()),
                bias_squared=float(np.square(centre - truth).sum()),
            )
        )
    return rows


def once(
    question: Question, values: Values, size: int, nano: int, rng: np.random.Generator
) -> Floats:
    """Answer by USERS users drawn from the pool, each in one block; values: the pool's."""
    query, low, spread = question.query, float(question.bounds[0]), float(question.spread)
    places = list(laid_out(question.values, -(-question.values // size)))
    randomizers = {length: hypercube_response(length, nano) for _, length in places}
    weights = [
        1 / float(HypercubeFamily(randomizers[length]).agreement) ** 2 for _, length in places
    ]
    answer = np.empty(question.values)
    for (start, length), weight in zip(places, weights, strict=True):
        randomizer, block = randomizers[length], slice(start, start + length)
        users = max(round(USERS * weight / sum(weights)), 1)
        words = rng.integers(0, 1 << 64, (users, length + randomizer.coins), dtype=np.uint64)
        people = values[rng.integers(0, len(values), users), block]
        signs = round_by_division(people, query.low, query.high, 2, words[:, :length].copy())
        counts = family_of(randomizer).tally(draw(randomizer, signs, words[:, length:]))
        shares = [float(share) for share in family_of(randomizer).frequencies(counts, users)]
        answer[block] = low + spread * np.array(shares)
    return answer


def concluded(learner: NonAdaptive[MeanVector], values: Floats) -> Floats:
    """Return the learner's estimates from an answer."""
    told = tuple(values.tolist())
    return np.array(learner.conclude((Answer(told, told, told),)).estimates)


def device_row(norm: str, d: int, size: int) -> dict[str, Any]:
    """Measure a request of that many components: its bytes, and a device's time for an answer."""
    schema = vectors_schema(d)
    learner = mean_vector(schema, norm=norm, missing="default")
    query = block_of(learner.batch.questions[0].query, 0, size)
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    terms = StudyTerms(
        bytes(16),
        "b",
        1,
        (),
        schema,
        10**12,
        2_000,
        "a benchmark",
        Conduct(),
        fields=tuple(sorted(schema.fields)),
    )
    study = sign_study(terms, key)
    randomizer = hypercube_response(size, 4 * NAT)
    record = schema.encode(dict.fromkeys(schema.fields, 0.01))
    times: dict[str, list[float]] = {"first": [], "again": []}
    for which, examiner in [("first", None)] * 9 + [("again", Examiner())] * 10:
        device = Device(
            schema=schema,
            record=record,
            policy=Policy(frozenset({study.public_key}), 10**12),
            ledger=MemoryLedger(),
            coins=SystemCoins(),
            now_s=lambda: 1_000,
            examiner=examiner or Examiner(),
        )
        device.introduce(study)
        payload = encode_request(Request(digest_of(study.study), 0, 0, query, randomizer))
        began = time.perf_counter()
        device.answer(payload)
        times[which].append(1000 * (time.perf_counter() - began))
    return {
        "norm": norm,
        "d": d,
        "components": size,
        "request_bytes": len(payload),
        "report_bytes": randomizer.width,
        "first_ms": min(times["first"]),
        "again_ms": min(times["again"]),
    }


def table(rows: Sequence[Row], devices: Sequence[dict[str, Any]]) -> str:
    """Return the errors by norm, dimension and epsilon; then devices."""
    lines = [
        "n x E||error||^2, unit bounds; sign patterns in blocks",
        f"{'norm':5}{'d':>5}{'eps':>5}  {'one':>21}  {'chosen (of)':>27}  {'all':>21}"
        f"  {'divided':>9}  {'bias^2':>8}",
    ]
    for one, chosen, every in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        pairs = [f"{row.measured:10.4g}/{row.theory:10.4g}" for row in (one, chosen, every)]
        lines.append(
            f"{one.norm:5}{one.d:5}{one.eps:5g}  {pairs[0]}  {pairs[1]} ({chosen.components:3})"
            f"  {pairs[2]}  {one.divided:9.3g}  {one.bias_squared:8.2g}"
        )
    lines += [
        "",
        "measured/theory. Devices at eps = 4, best of 10 (first: the request is new):",
    ]
    lines += [
        f"{row['norm']:5} d={row['d']:5} s={row['components']:5} request {row['request_bytes']:6}"
        f" bytes, report {row['report_bytes']:4} bytes, {row['first_ms']:7.2f} ms first,"
        f" {row['again_ms']:7.2f} ms again"
        for row in devices
    ]
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw one panel per norm: error by epsilon, at the greatest dimension."""
    import matplotlib as mpl  # slow, and only needed here

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2))
    for axes, norm in zip(panels, ("linf", "l2"), strict=True):
        mine = [row for row in rows if row.norm == norm]
        for name, colour in (("one", "#b0b0b0"), ("chosen", "#0b6e99"), ("all", "#c0392b")):
            some = [row for row in mine if row.size == name]
            across = [row.eps for row in some]
            axes.plot(across, [row.theory for row in some], color=colour, label=name)
            axes.plot(across, [row.measured for row in some], "o", color=colour)
        axes.set_yscale("log")
        axes.set_title(f"{norm}, d = {mine[0].d}", loc="left")
        axes.set_xlabel("epsilon")
        axes.set_ylabel("n E||error||\u00b2")
        axes.legend(frameon=False, title="components a user")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    raise SystemExit(main())
