"""Generated losses, draws, alphabets, roundings and records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from random import Random
from typing import Any

from askance_aggregator.encoding import encode_randomizer, encode_schema
from askance_client.accounting import exp_bounds
from askance_client.errors import InvalidParameter
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_client.randomizers.public_rotations import turned
from tests.conformance.make.from_vectors import Json, case
from tests.conformance.make.programs import SCHEMAS

M = 1 << 64
DRAWS = 24  # per randomizer
PRIMES = (2, 3, 5, 7, 11, 31, 257, 65521)


def loss_cases(random: Random, count: int) -> Iterator[Json]:
    """Yield ratios: of every size, near 1, and on both sides of a whole number of nano-nats."""
    for number in range(count):
        denominator = random.getrandbits(random.randint(1, 256)) + 1
        form = random.choice(["any", "near 1", "below", "above"])
        if form == "any":
            numerator = random.getrandbits(random.randint(1, 256))
        elif form == "near 1":
            numerator = denominator + random.randint(-2, 5)
        else:  # e^N times the denominator lies strictly between these two
            nano = random.randint(1, 10 ** random.randint(1, 10))
            low, _ = exp_bounds(nano, 512)
            numerator = (low * denominator >> 512) + (form == "above")
        parts = {"numerator": str(max(numerator, 0)), "denominator": str(denominator)}
        yield case("loss", f"{form} {number}", **parts)


def _threshold(random: Random) -> int:
    near = [1, 2, M - 1, M // 2, M // 2 + 1, M // 2 - 1]
    return random.choice([*near, *[random.randint(M // 2, M - 1)] * 6, random.randint(1, M - 1)])


def _channel(random: Random) -> Randomizer:
    levels, symbols = random.randint(2, 6), random.randint(2, 7)
    rows = []
    for _ in range(levels):
        cuts = sorted({random.randint(1, M - 1) for _ in range(symbols - 1)})
        rows.append(tuple(b - a for a, b in zip([0, *cuts], [*cuts, M], strict=True)))
    return Channel(tuple(rows))


def _k_ary(random: Random) -> Randomizer:
    cells = random.choice([2, 3, 5, 255, 256, 300, 65_536, 1 << 20, random.randint(2, 1000)])
    return KaryResponse(cells, random.randint(1, (M - 1) // (cells - 1)))


def _hashing(random: Random) -> Randomizer:
    cells = random.choice([3, 4, 8, 9, 27, 1000, 65_536, 1 << 20, random.randint(3, 5000)])
    modulus = random.choice([prime for prime in PRIMES if prime < cells])
    return LinearHashing(cells, modulus, random.randint(1, (M - 1) // (modulus - 1)))


def _subset(random: Random) -> Randomizer:
    cells = random.choice([2, 3, 7, 8, 9, 64, 300, 40_000, random.randint(2, 60)])
    size = random.randint(1, min(cells - 1, 12))
    return SubsetSelection(cells, size, _threshold(random))


def _signed_subset(random: Random) -> Randomizer:
    values = random.choice([1, 2, 3, 4, 63, 64, 65, 200, random.randint(1, 20)])
    return SignedSubsetSelection(values, random.randint(1, min(values, 9)), _threshold(random))


def _sign(random: Random) -> Randomizer:
    values = random.choice([1, 2, 3, 4, 5, 127, 128, 129, 32_767])
    return HadamardSign(values, _threshold(random))


def _cube(random: Random) -> Randomizer:
    components = random.choice([1, 2, 3, 7, 8, 63, 64, 65, 100])
    return HypercubeResponse(components, random.randrange(components), _threshold(random))


def _codebook(random: Random) -> Randomizer:
    components = random.choice([1, 2, 5, 15, 16, 17, 30, 31, 40])
    radius = random.choice([1, 7, 8, 255, 1 << 16, 1 << 25, 1 << 26, 1 << 30, 1 << 40])
    bases = random.randint(1, 2)
    order = RandomCodebook(components, radius, bases, 1, 1).order
    near = random.randint(1, 2 * bases * order - 1)
    bits = random.choice([0, 4, 40, 40])
    return RandomCodebook(components, radius, bases, near, _threshold(random), bits)


FAMILIES: tuple[Callable[[Random], Randomizer], ...] = (
    *(_channel, _k_ary, _hashing, _subset, _signed_subset, _sign, _cube, _codebook),
)


def randomizer_cases(random: Random, each: int) -> Iterator[Json]:
    """Yield randomizers of every family, with draws and reports that are in no alphabet."""
    for family in FAMILIES:
        for number in range(each):
            randomizer = _valid(random, family)
            data = encode_randomizer(randomizer).SerializeToString(deterministic=True).hex()
            name = f"{randomizer.name} {number}"
            yield case("randomizer", name, bytes=data)
            draws = [_draw(random, randomizer) for _ in range(DRAWS)]
            yield case("draw", name, randomizer=data, draws=draws)
            reports = [_report(random, randomizer) for _ in range(12)]
            yield case("alphabet", name, randomizer=data, reports=reports)


def _valid(random: Random, family: Callable[[Random], Randomizer]) -> Randomizer:
    while True:
        try:
            return family(random)
        except InvalidParameter:  # a threshold that leaves no coin to other reports
            continue


def _draw(random: Random, randomizer: Randomizer) -> Json:
    levels = randomizer.levels
    level = random.choice([0, levels - 1, random.randrange(levels), random.randrange(levels)])
    coins = [str(_coin(random, randomizer)) for _ in range(randomizer.coins)]
    return {"level": f"{level:x}", "coins": coins}


def _coin(random: Random, randomizer: Randomizer) -> int:
    """A coin; one in three is where a draw changes, or next to it."""
    if random.random() < 0.67:
        return random.getrandbits(64)
    edges = [0, M - 1, M // 2]
    if isinstance(randomizer, Channel):
        edges += [edge for row in randomizer.table for edge in accumulate(row)]
    else:
        edges += [edge for p in randomizer.parameters for edge in (p, M - p)]
        own = getattr(randomizer, "own", 0)
        edges += [own, own + randomizer.parameters[-1]]
        if isinstance(randomizer, SignedSubsetSelection):
            opposite, even = randomizer.opposite, randomizer.even
            edges += [randomizer.threshold + opposite, even, 2 * even]
    return min(max(random.choice(edges) + random.choice([-1, 0, 0, 1]), 0), M - 1)


def _report(random: Random, randomizer: Randomizer) -> str:
    """A report, most often changed by a bit, a byte or its length."""
    draw = _draw(random, randomizer)
    words = list(map(int, draw["coins"]))
    data = bytearray(randomizer.randomize(int(draw["level"], 16), words))
    form = random.choice(["same", "bit", "bit", "ones", "zeros", "longer", "shorter", "number"])
    if form == "bit":
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif form in ("ones", "zeros"):
        data = bytearray((b"\xff" if form == "ones" else b"\0") * len(data))
    elif form == "longer":
        data.append(0)
    elif form == "shorter":
        del data[-1]
    elif form == "number":
        data = bytearray(random.randbytes(len(data)))
    return data.hex()


def tie_cases() -> Iterator[Json]:
    """Yield draws of both of two codes whose inner products are equal."""
    for components in (1, 17):
        codebook = RandomCodebook(components, 8, 20, 600, M // 2, 0)
        level = codebook.vector_level([0] * components, -8, 8, [])
        rows = turned(codebook.point(level), 0, codebook.bases)
        ranked = codebook.ranked(level, 0)
        scores = [-rows[code // 2] if code % 2 else rows[code // 2] for code in ranked]
        ranks = [r for r in range(599) if scores[r] == scores[r + 1]][:4]
        coins = [["0", "0", str(-(-r * M // 600))] for rank in ranks for r in (rank, rank + 1)]
        yield case(
            "draw",
            f"equal inner products {components}",
            randomizer=encode_randomizer(codebook).SerializeToString(deterministic=True).hex(),
            draws=[{"level": f"{level:x}", "coins": words} for words in coins],
        )


def level_cases(random: Random, count: int) -> Iterator[Json]:
    """Yield numbers and vectors with the coins that round them, at the threshold and beside it."""
    for number in range(count):
        low = random.randint(-(1 << 40), 1 << 40)
        high = low + random.choice([1, 2, 3, 7, 65_536, random.randint(1, (1 << 31) - 1)])
        form = random.choice([_channel, _k_ary, _cube, _codebook])
        randomizer = _valid(random, form)
        if form is _k_ary:
            randomizer = KaryResponse(random.choice([2, 3, 33, 65_536]), 1)
        levels = randomizer.levels if form in (_channel, _k_ary) else 2
        values = [
            random.choice([low, high, *[random.randint(low, high)] * 4])
            for _ in range(randomizer.vector_components or 1)
        ]
        coins = []
        for value in values:
            rest = (value - low) * (levels - 1) % (high - low)
            edge = (rest << 64) // (high - low) + random.choice([-1, 0, 1])
            coins.append(min(max(random.choice([edge, random.getrandbits(64)]), 0), M - 1))
        yield case(
            "level",
            f"{randomizer.name} {number}",
            randomizer=encode_randomizer(randomizer).SerializeToString(deterministic=True).hex(),
            low=str(low),
            high=str(high),
            values=list(map(str, values)),
            coins=[] if form is _codebook else list(map(str, coins)),
        )


TEXTS = (
    *("0", "1", "-1", "+1", "1.0", "1.", ".5", "0.5", "-0.5", "1.5", "2.5", "1e0", "1E2", "12e-1"),
    *("1/1", "3/2", "-7/2", "1/0", "0/5", "1/-2", "", "?", " ", " 1 ", "\t1\n", "1 2", "one"),
    *("nan", "inf", "-inf", "0x1", "1_000", "1e400", "-1e400", "1e-400", "0e400", "1e", ".", "-"),
    *("+.5", "9" * 128, "9" * 129, "0." + "0" * 120 + "1", "1,5", "true", "True", "red", " red"),
    *("Red", "yes", "no", "119.5", "120.5", "0.5000000001", "1.25", "0.0000152587890625"),
    *("0.00000762939453125", "0.000007629394531250001", "\u0661", "\uff11", "1e+2", "1e-2"),
    *("0" * 35, "1" * 35, "01" * 17 + "2", " " + "1" * 35 + " ", "1" * 34, "1" * 64),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 120, 121, 4_000, -4_000, [], [1], [0] * 35, [1] * 35),
    *(["1"] * 35, [True] * 35, ["1.0"] * 35, [2] * 35, [None] * 35, ["0"] * 64),
)


def record_cases() -> Iterator[Json]:
    """Yield records whose fields all have one value, for every schema and value."""
    for schema in SCHEMAS:
        data = encode_schema(schema).SerializeToString(deterministic=True).hex()
        for number, value in enumerate([*TEXTS, *VALUES]):
            row = dict.fromkeys(schema.fields, value)
            yield case("record", f"{schema.name} {number}", schema=data, record=row)
