"""Memory while a request is examined: a stated multiple of its size, whatever it is."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from askance_aggregator.encoding import encode_query, encode_randomizer
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import (
    clip,
    dot,
    predicate,
    real,
    vector,
    where,
)
from askance_client.codec import MAX_MESSAGE_BYTES
from askance_client.device import ExaminedStudy, Examiner, examination
from askance_client.device.examination import (
    KEPT_PER_BYTE,
    KEPT_PER_ENTRY,
    MEMORY_PER_BYTE,
    MEMORY_PER_ENTRY,
)
from askance_client.messages import Refusal, StudyTerms
from askance_client.queries import (
    Bit,
    Bits,
    Expression,
    Integer,
    Query,
    Schema,
)
from askance_protos.v1 import exchange_pb2, query_pb2, randomizer_pb2

SCHEMA = Schema("person", 1, bit=Bit(), small=Integer(0, 100), bits=Bits(4_000))
FIXED = 128 * 1024  # bytes that any examination takes
SIDE = 720  # levels and symbols of the largest table
Node, Table = query_pb2.Node, randomizer_pb2.Table
Join = Callable[[Expression, Expression], Expression]


def study() -> ExaminedStudy:
    terms = StudyTerms(
        bytes(16),
        "test",
        1,
        (),
        SCHEMA,
        10**12,
        2_000_000_000,
        "to be measured",
        fields=tuple(SCHEMA.fields),
    )
    return ExaminedStudy(bytes(32), terms, bytes(32), b"")


def payload(query: Query | query_pb2.Query, randomizer: randomizer_pb2.Randomizer) -> bytes:
    return exchange_pb2.Request(
        study_digest=bytes(32),
        query=encode_query(query) if isinstance(query, Query) else query,
        randomizer=randomizer,
    ).SerializeToString()


def joined(leaves: list[Expression], join: Join) -> Expression:
    """A tree over the leaves, as flat as it can be: depth is limited, nodes are wanted."""
    while len(leaves) > 1:
        odd = leaves[-1:] if len(leaves) % 2 else []
        pairs = zip(leaves[::2], leaves[1::2], strict=False)
        leaves = [join(one, other) for one, other in pairs] + odd
    return leaves[0]


def hostile() -> Iterator[tuple[str, bytes]]:
    """Requests that take much: valid ones of many small nodes, and lists that mean nothing."""
    response = encode_randomizer(randomized_response(10**8))
    small, bits = SCHEMA.small, SCHEMA.bits
    for count in (20, 300, 1_000):
        for name, query in {
            "sums": predicate(joined([small + i for i in range(1, count)], lambda a, b: a + b) > 3),
            "products": predicate(
                joined([small * i for i in range(1, count)], lambda a, b: a + b) > 3
            ),
            "differences": predicate(
                joined([-(small - i) for i in range(1, count)], lambda a, b: a - b) > 3
            ),
            "bounds": predicate(
                joined([clip(small, 0, i) for i in range(1, count)], lambda a, b: a + b) > 3
            ),
            "conjunctions": predicate(joined([~bits[i] for i in range(count)], lambda a, b: a & b)),
            "choices": predicate(
                joined(
                    [where(bits[i], bits[i + 1], bits[i + 2]) for i in range(count)],
                    lambda a, b: a | b,
                )
            ),
            "a dot product": predicate(dot([1] * count, [bits[i] for i in range(count)]) > 2),
            "a vector": vector([bits[i] for i in range(count)], 0, 1),
        }.items():
            yield f"{name} of {count}", payload(query, response)
    most = MAX_MESSAGE_BYTES - 256
    for name, nodes in {
        "empty nodes": [Node()] * (most // 2),
        "nodes at the limit": [Node()] * 4_096,
        "constants": [Node(op=1, constants=[1])] * 4_096,
        "arguments of one node": [Node(op=4, args=[0] * most)],
        "constants of one node": [Node(op=1, constants=[0] * most)],
        "a long name": [Node(op=2, name="x" * most)],
        "fields": [Node(op=2, name="small")] * 4_096,
    }.items():
        yield (
            name,
            payload(
                query_pb2.Query(kind=query_pb2.QUERY_KIND_PREDICATE, high=1, nodes=nodes), response
            ),
        )
    for name, table in {
        "entries": Table(levels=64, symbols=64, entries=[0] * most),
        "a full table": Table(levels=64, symbols=64, entries=[1] * 4_096),
    }.items():
        yield name, payload(predicate(SCHEMA.bit), randomizer_pb2.Randomizer(table=table))


def generated(seed: int) -> bytes:
    """A valid request of random operations on numbers, of few bytes a node."""
    rng = random.Random(seed)  # a corpus, not a secret
    small, bits = SCHEMA.small, SCHEMA.bits
    leaves: list[Callable[[int], Expression]] = [
        lambda i: small + i,
        lambda i: small - i,
        lambda i: small * (i % 100),
        lambda i: -(small + i),
        lambda i: abs(small - i),
        lambda i: where(bits[i], small, i),
        lambda i: bits[i] + 0,
        lambda i: bits[i] * i,
    ]
    chosen = rng.sample(leaves, rng.randint(1, 3))
    count = rng.choice([100, 400, 800])
    made = [rng.choice(chosen)(rng.randint(1, 3_000)) for _ in range(count)]
    join: Join = rng.choice([lambda a, b: a + b, lambda a, b: a - b])
    query = predicate(joined(made, join) > rng.randint(-9, 9))
    return payload(query, encode_randomizer(randomized_response(10**8)))


def measured(data: bytes) -> tuple[int, int]:
    """Bytes kept, and bytes at the peak, of one examination (protobuf's own are not traced)."""
    examiner, of = Examiner(), study()
    gc.collect()
    tracemalloc.start()
    try:
        examined = examiner.request(data, of)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert examined is not None
    return kept, peak


@pytest.mark.parametrize(("name", "data"), list(hostile()), ids=lambda item: str(item)[:40])
def test_examining_takes_no_more_than_the_stated_multiple_of_its_size(
    name: str, data: bytes
) -> None:
    kept, peak = measured(data)
    assert peak <= MEMORY_PER_BYTE * len(data) + FIXED
    assert kept <= KEPT_PER_BYTE * len(data) + FIXED


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]
)
def test_so_it_does_for_generated_requests(seed: int) -> None:
    data = generated(seed)
    assert not isinstance(Examiner().request(data, study()), Refusal)
    kept, peak = measured(data)
    assert peak <= MEMORY_PER_BYTE * len(data) + FIXED
    assert kept <= KEPT_PER_BYTE * len(data) + FIXED


def table_of_runs(number: int = 0, symbols: int = SIDE) -> bytes:
    """A valid request of some 150 bytes: a table of few runs, with a loss of about .002 nats."""
    share, rest = divmod(1 << 64, symbols)
    raised = share // 500 + number
    runs = [(share + raised, 1), (share, SIDE - 1), (share - raised, 1)]
    runs += [(share, SIDE * (symbols - 2) - 1), (share + rest, SIDE)]
    entries, repeats = zip(*runs, strict=True)
    table = Table(levels=SIDE, symbols=symbols, entries=entries, repeats=repeats)
    return payload(real(SCHEMA.small, default=0), randomizer_pb2.Randomizer(table=table))


@pytest.mark.parametrize("symbols", [3, 100, SIDE])
def test_a_table_of_runs_takes_no_more_than_the_stated_multiple_of_its_entries(
    symbols: int,
) -> None:
    data, entries = table_of_runs(symbols=symbols), SIDE * symbols
    assert len(data) < 200
    assert not isinstance(Examiner().request(data, study()), Refusal)
    kept, peak = measured(data)
    assert peak <= MEMORY_PER_ENTRY * entries + MEMORY_PER_BYTE * len(data) + FIXED
    assert kept <= KEPT_PER_ENTRY * entries + KEPT_PER_BYTE * len(data) + FIXED


def test_what_is_remembered_of_many_small_requests_with_large_tables_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 1 << 16  # bytes: one table of 720 x 720, not two
    monkeypatch.setattr(examination, "_MAX_BYTES", most)
    examiner, of = Examiner(capacity=4096), study()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(3):
            data = table_of_runs(number)
            assert not isinstance(examiner.request(data, of), Refusal)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= KEPT_PER_BYTE * most + FIXED
