"""Memory while a request is examined: a stated multiple of its size, whatever it is."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from functools import partial

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
RESPONSE = encode_randomizer(randomized_response(10**8))


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


SMALL, BITS, MOST = SCHEMA.small, SCHEMA.bits, MAX_MESSAGE_BYTES - 256
OF_SIZE: dict[str, Callable[[int], Query]] = {
    "sums": lambda n: predicate(added([SMALL + i for i in range(1, n)]) > 3),
    "products": lambda n: predicate(added([SMALL * i for i in range(1, n)]) > 3),
    "differences": lambda n: predicate(
        joined([-(SMALL - i) for i in range(1, n)], lambda a, b: a - b) > 3
    ),
    "bounds": lambda n: predicate(added([clip(SMALL, 0, i) for i in range(1, n)]) > 3),
    "conjunctions": lambda n: predicate(joined([~BITS[i] for i in range(n)], lambda a, b: a & b)),
    "choices": lambda n: predicate(
        joined([where(BITS[i], BITS[i + 1], BITS[i + 2]) for i in range(n)], lambda a, b: a | b)
    ),
    "a dot product": lambda n: predicate(dot([1] * n, [BITS[i] for i in range(n)]) > 2),
    "a vector": lambda n: vector([BITS[i] for i in range(n)], 0, 1),
}
"""Valid queries of many small nodes, by their number."""
OF_NODES: dict[str, Callable[[], list[query_pb2.Node]]] = {
    "empty nodes": lambda: [Node()] * (MOST // 2),
    "nodes at the limit": lambda: [Node()] * 4_096,
    "constants": lambda: [Node(op=1, constants=[1])] * 4_096,
    "arguments of one node": lambda: [Node(op=4, args=[0] * MOST)],
    "constants of one node": lambda: [Node(op=1, constants=[0] * MOST)],
    "a long name": lambda: [Node(op=2, name="x" * MOST)],
    "fields": lambda: [Node(op=2, name="small")] * 4_096,
}
"""Lists of nodes that mean nothing."""
OF_ENTRIES = {"entries": [0] * MOST, "a full table": [1] * 4_096}


def added(leaves: list[Expression]) -> Expression:
    return joined(leaves, lambda a, b: a + b)


def request_of_size(name: str, size: int) -> bytes:
    return payload(OF_SIZE[name](size), RESPONSE)


def request_of_nodes(name: str) -> bytes:
    nodes = OF_NODES[name]()
    query = query_pb2.Query(kind=query_pb2.QUERY_KIND_PREDICATE, high=1, nodes=nodes)
    return payload(query, RESPONSE)


def request_of_entries(name: str) -> bytes:
    table = Table(levels=64, symbols=64, entries=OF_ENTRIES[name])
    return payload(predicate(SCHEMA.bit), randomizer_pb2.Randomizer(table=table))


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
    return payload(query, RESPONSE)


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


@pytest.mark.parametrize(
    "make",
    [
        *(
            pytest.param(partial(request_of_size, name, n), id=f"{name} of {n}")
            for n in (20, 300, 1_000)
            for name in OF_SIZE
        ),
        *(pytest.param(partial(request_of_nodes, name), id=name) for name in OF_NODES),
        *(pytest.param(partial(request_of_entries, name), id=name) for name in OF_ENTRIES),
    ],
)
def test_examining_takes_no_more_than_the_stated_multiple_of_its_size(
    make: Callable[[], bytes],
) -> None:
    data = make()
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
