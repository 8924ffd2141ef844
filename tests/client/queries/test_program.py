"""Untrusted programs: one canonical form, and everything else refused by name."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.queries import (
    bucketize,
    category,
    clip,
    dot,
    first,
    index_of,
    maximum,
    parity,
    predicate,
    round_to,
    sigmoid,
    where,
)
from askance_client.errors import InvalidQuery
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Op,
    Real,
    Schema,
    flatten,
)
from askance_client.queries.program import Node, Program, rebuild

S = Schema("s", 1, b=Bit(), v=Bits(40), c=Category(["x", "y"]), i=Integer(-3, 4), r=Real(-1, 1, 8))
B, V, C, N, R = (Node(Op.FIELD, name=name) for name in "bvcir")

EVERYTHING: Expression = first(
    [
        (S.i + 1 - S.r < sigmoid(S.r * S.i)) & (S.c == "y") | ~S.b,
        where(S.v[39], -abs(S.i), maximum(S.r, 0.25)) <= round_to(S.r * 0.5, 3),
        parity(S.v, "10" * 20) == (dot([1] * 40, S.v) > clip(S.i, 0, 3)),
        (bucketize(S.r, [-0.5, 0.5]) == 2) & (index_of(S.c) > 0),
    ]
)


def test_the_numbers_of_operations_are_frozen() -> None:
    assert {op.name: int(op) for op in Op} == {
        "CONSTANT": 1, "FIELD": 2, "COMPONENT": 3, "ADD": 4, "SUBTRACT": 5, "MULTIPLY": 6,
        "NEGATE": 7, "LESS": 8, "LESS_EQUAL": 9, "EQUAL": 10, "AND": 11, "OR": 12, "NOT": 13,
        "WHERE": 14, "CLIP": 15, "ROUND": 16, "SIGMOID": 17, "PARITY": 18, "DOT": 19,
        "BUCKETIZE": 20, "FIRST": 21, "MINIMUM": 22, "MAXIMUM": 23, "ABSOLUTE": 24, "INDEX": 25,
        "VECTOR": 26,
    }  # fmt: skip
    assert {kind.name: int(kind) for kind in Kind} == {
        "BOOLEAN": 1, "NUMBER": 2, "CATEGORY": 3, "BITS": 4, "VECTOR": 5,
    }  # fmt: skip


def test_nodes_are_the_postorder_with_the_root_last() -> None:
    assert flatten((S.i + 1) * (S.i + 1)) == (
        N,
        Node(Op.CONSTANT, constants=(1,)),
        Node(Op.ADD, (0, 1)),
        Node(Op.MULTIPLY, (2, 2)),
    )


def test_a_program_is_an_expression_s_nodes_and_bytes() -> None:
    program = Program(EVERYTHING)
    assert program.nodes == flatten(EVERYTHING)
    assert rebuild(program.nodes, S).same_as(EVERYTHING)


def test_a_program_reads_as_its_expression() -> None:
    assert repr(Program(S.i * 2)) == "Program(expression=(i * 2))"


def test_the_canonical_bytes_are_frozen() -> None:
    header, node = b"askance/program/1", b"askance/node/1"
    assert Program(S.r + 0.5).canonical == b"".join(
        [
            header + bytes.fromhex("00000003"),
            node + bytes.fromhex("02 00000000 00000001") + b"r" + bytes.fromhex("00000000 00"),
            node + bytes.fromhex("01 00000000 00000000 00000001 0000000000008000 10"),
            node + bytes.fromhex("04 00000002 00000000 00000001 00000000 00000000 00"),
        ]
    )


def test_the_canonical_bytes_tell_all_programs_apart() -> None:
    several = [
        S.b, S.i, S.i + 1, 1 + S.i, S.i + 2, S.i + 1.0, S.i - 1, S.v[0], S.v[1], S.v[32],
        clip(S.i, 0, 1), clip(S.i, 0, 2), clip(S.i, 0.0, 1), round_to(S.r, 1), round_to(S.r, 2),
        parity(S.v, "1" + "0" * 39), parity(S.v, "0" * 39 + "1"), dot([1, 2], [S.i, S.r]),
        dot([2, 1], [S.i, S.r]), dot([1, 2], [S.r, S.i]), first([S.b]), first([S.b, S.b]), ~S.b,
    ]  # fmt: skip
    for a, b in combinations(several, 2):
        assert Program(a).canonical != Program(b).canonical
        assert not a.same_as(b)


def one(value: int = 1, frac: int = 0) -> Node:
    return Node(Op.CONSTANT, constants=(value,), frac=frac)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], r"1\.\.4096 nodes, found 0"),
        ([N] * 4097, r"1\.\.4096 nodes, found 4097"),
        ([N, Node(0, (0,))], "known operation at node 1, found number"),  # type: ignore[arg-type]  # hostile
        ([N, Node(28, (0,))], "known operation at node 1, found number"),  # type: ignore[arg-type]  # hostile
        ([N] * 4098, r"1\.\.4096 nodes, found 4098"),
        ([N, Node(29, (0,))], "known operation at node 1, found number"),  # type: ignore[arg-type]  # hostile
        ([N, Node(-1, (0,))], "known operation at node 1, found number"),  # type: ignore[arg-type]  # hostile
        ([Node(Op.NEGATE, (0,))], "node 0: NEGATE expects positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (1,))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (-1,))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (2,))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (-2,))], "positions of earlier nodes"),
        ([N, Node(Op.ADD, (0, -1))], "positions of earlier nodes"),
        ([N, Node(Op.ADD, (0, 2))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (False,))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, (1 << 70,))], "positions of earlier nodes"),
        ([N, Node(Op.NEGATE, ())], "NEGATE expects 1 arguments, found 0"),
        ([N, Node(Op.ADD, (0, 0, 0))], "ADD expects 2 arguments, found 3"),
        ([N, Node(Op.NEGATE, (0,), "i")], "NEGATE expects no field name"),
        ([N, Node(Op.NEGATE, (0,), constants=(1,))], "0 constants, found 1"),
        ([N, Node(Op.NEGATE, (0,), frac=1)], "NEGATE expects a grid of 0 bits"),
        ([Node(Op.FIELD, name="zip")], "has no field 'zip'"),
        ([Node(Op.FIELD, name="")], "has no field ''"),
        ([Node(Op.FIELD, name="\ud800")], "has no field"),
        ([Node(Op.FIELD, name=7)], "a text as name"),  # type: ignore[arg-type]  # hostile
        ([N, Node(Op.FIELD, (0,), "b")], "FIELD b expects no arguments"),
        ([Node(Op.FIELD, name="i", constants=(1,))], "FIELD i expects no arguments"),
        ([Node(Op.FIELD, name="i", frac=3)], "FIELD i expects no arguments, constants or grid"),
        ([Node(Op.CONSTANT)], "1 constants, found 0"),
        ([Node(Op.CONSTANT, constants=(1, 2))], "1 constants, found 2"),
        ([one(1 << 62)], r"integer constants below 2\^62"),
        ([one((1 << 62) + 1)], r"integer constants below 2\^62"),
        ([one(-(1 << 62) - 1)], r"integer constants below 2\^62"),
        ([one(-(1 << 62))], r"integer constants below 2\^62"),
        ([one(1.5)], "integer constants"),  # type: ignore[arg-type]  # hostile
        ([one(1, 41)], r"grid of 0\.\.40 bits"),
        ([one(1, -1)], r"grid of 0\.\.40 bits"),
        ([one(1, 1.0)], "an integer grid"),  # type: ignore[arg-type]  # hostile
        ([V, Node(Op.COMPONENT, (0,), constants=(-1,))], r"one of 0\.\.39, found -1"),
        ([V, Node(Op.COMPONENT, (0,), constants=(40,))], r"one of 0\.\.39, found 40"),
        ([N, Node(Op.COMPONENT, (0,), constants=(0,))], "COMPONENT expects BITS"),
        ([V, Node(Op.PARITY, (0,), constants=(1,))], "2 constants, found 1"),
        ([V, Node(Op.PARITY, (0,), constants=(1, 1, 1))], "2 constants, found 3"),
        ([V, Node(Op.PARITY, (0,), constants=(1, 256))], "mask of 40 bits"),
        ([V, Node(Op.PARITY, (0,), constants=(1 << 32, 0))], "mask of 40 bits"),
        ([V, Node(Op.PARITY, (0,), constants=(-1, 0))], "mask of 40 bits"),
        ([V, Node(Op.DOT, (0,), constants=(1,) * 39)], "40 constants, found 39"),
        ([V, Node(Op.DOT, (0,), constants=(1,) * 4097)], "at most 4096 constants"),
        ([V, Node(Op.DOT, (0,), constants=(1,) * 4098)], "at most 4096 constants"),
        ([V, N, Node(Op.DOT, (0, 1), constants=(1, 1))], "DOT expects 1 arguments"),
        ([N, V, Node(Op.DOT, (0, 1), constants=(1, 1))], "DOT expects BOOLEAN or NUMBER"),
        ([N, Node(Op.DOT, (0,), constants=(1 << 61,))], r"could reach 2\^62"),
        ([N, Node(Op.CLIP, (0,), constants=(1, 0))], "low <= high"),
        ([N, Node(Op.CLIP, (0,), constants=(1,))], "2 constants, found 1"),
        ([R, Node(Op.ROUND, (0,), frac=8)], "grid coarser than"),
        ([R, Node(Op.ROUND, (0,), frac=-1)], r"grid of 0\.\.40"),
        ([N, Node(Op.BUCKETIZE, (0,), constants=(2, 1))], "increasing edges"),
        ([C, one(2), Node(Op.EQUAL, (0, 1))], r"indices 0\.\.1"),
        ([C, one(-1), Node(Op.EQUAL, (0, 1))], r"indices 0\.\.1"),
        ([C, one(1, 1), Node(Op.EQUAL, (0, 1))], "beside a category"),
        ([C, N, Node(Op.EQUAL, (0, 1))], "beside a category"),
        ([V, Node(Op.NOT, (0,))], "NOT expects BOOLEAN"),
        ([N, N, Node(Op.ADD, (0, 1))], "canonical order"),  # a node twice
        ([N, B, Node(Op.NEGATE, (0,))], "canonical order"),  # a node that is not used
        ([N, Node(Op.NEGATE, (0,)), N], "canonical order"),
        ([B, N, Node(Op.SUBTRACT, (1, 0))], "canonical order"),  # another order
    ],
)
def test_hostile_nodes_are_refused(nodes: list[Node], message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        rebuild(nodes, S)


def test_a_program_is_read_against_the_device_s_own_schema() -> None:
    nodes = flatten(S.i * 2)
    wider = Schema("s", 2, i=Integer(-30, 40))
    assert rebuild(nodes, wider).high == 80
    with pytest.raises(InvalidQuery, match="found CATEGORY"):
        rebuild(nodes, Schema("s", 3, i=Category(["a", "b"])))
    with pytest.raises(InvalidQuery, match=r"could reach 2\^62"):
        rebuild(nodes, Schema("s", 3, i=Integer(0, 1 << 61)))


def test_a_deep_program_is_refused_without_recursion() -> None:
    nodes = [N] + [Node(Op.NEGATE, (position,)) for position in range(4000)]
    with pytest.raises(InvalidQuery, match="depth of at most 64"):
        rebuild(nodes, S)


def test_a_heavy_program_is_refused() -> None:
    wide = Schema("w", 1, v=Bits(4096))
    nodes = [V] + [Node(Op.DOT, (0,), constants=(k,) * 4096) for k in range(16)]
    with pytest.raises(InvalidQuery, match="at most 65536 nodes, arguments and constants"):
        rebuild(nodes, wide)


@pytest.mark.parametrize("past", [0, 1, 2])
def test_a_program_weighs_its_nodes_arguments_and_constants_up_to_65536(past: int) -> None:
    """15 times 4098 for the dots, 2 fields, k + 2 for the buckets, 2 and 17 for the last two."""
    wide = Schema("w", 1, v=Bits(4096), i=Integer(-3, 4))
    edges = 65536 - (15 * 4098 + 2 + 2 + 2 + 17) + past
    nodes = [
        Node(Op.FIELD, name="v"),
        *[Node(Op.DOT, (0,), constants=(k,) * 4096) for k in range(15)],
        Node(Op.FIELD, name="i"),
        Node(Op.BUCKETIZE, (16,), constants=tuple(range(edges))),
        Node(Op.INDEX, (17,)),
        Node(Op.VECTOR, (*range(1, 16), 18)),
    ]
    if past:
        with pytest.raises(InvalidQuery, match=r"node 19: .* at most 65536 nodes, arguments"):
            rebuild(nodes, wide)
    else:
        assert rebuild(nodes, wide).weight == 65536


def test_a_program_of_shared_nodes_counts_each_once() -> None:
    doubled = [N, *[Node(Op.ADD, (position, position)) for position in range(4)]]
    expression = rebuild(doubled, S)
    for size in range(5, 0, -1):  # as trees: 31, 15, 7, 3 and 1 nodes
        assert (expression.size, expression.weight) == (size, 3 * size - 2)
        expression = expression.args[0] if expression.args else expression


def test_a_node_s_integers_are_in_reach_and_no_truth_values() -> None:
    for value in ((1 << 62) - 1, 1 - (1 << 62)):
        assert rebuild([Node(Op.CONSTANT, constants=(value,))], S).low == value
    for wrong in (1 << 62, -(1 << 62), True, 1.0):
        node = Node(Op.CONSTANT, constants=(wrong,))  # type: ignore[arg-type]  # hostile
        with pytest.raises(InvalidQuery, match=r"node 0: CONSTANT expects integer constants"):
            rebuild([node], S)
    assert rebuild([N, Node(Op.NEGATE, (0,))], S).op == Op.NEGATE
    for wrong in (-1, 1, True, 0.0):
        node = Node(Op.NEGATE, (wrong,))  # type: ignore[arg-type]  # hostile
        with pytest.raises(InvalidQuery, match=r"node 1: NEGATE expects positions of earlier"):
            rebuild([N, node], S)
    with pytest.raises(InvalidQuery, match=r"node 1: BUCKETIZE expects at most 4096 constants"):
        rebuild([N, Node(Op.BUCKETIZE, (0,), constants=tuple(range(4097)))], S)


def test_a_program_of_shared_nodes_costs_what_its_size_is() -> None:
    """Nearly 4000 nodes whose tree has more than 2^60 leaves: linear to read, and to answer."""
    schema = Schema("lattice", 1, v=Bits(64))
    layer = list(schema.v)
    for _ in range(58):
        layer = [layer[k] & layer[(k + 1) % 64] for k in range(64)]
    nodes = flatten(first(layer))
    assert len(nodes) == 1 + 64 * 59 + 1
    began = time.process_time()  # a busy machine is no failure
    query = category(rebuild(nodes, schema))
    assert query.evaluate(schema.encode({"v": "1" * 64})) == 0
    assert query.evaluate(schema.encode({"v": "0" + "1" * 63})) == 1
    assert time.process_time() - began < 2


VALID = flatten(EVERYTHING)


@st.composite
def mutations(draw: st.DrawFn) -> list[Node]:
    nodes = list(VALID)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(nodes) - 1))
        node = nodes[position]
        small = st.integers(-2, 60)
        change: dict[str, Any] = draw(
            st.one_of(
                st.fixed_dictionaries({"op": st.integers(-1, 27)}),
                st.fixed_dictionaries({"args": st.lists(small, max_size=4).map(tuple)}),
                st.fixed_dictionaries(
                    {"constants": st.lists(small | st.integers(), max_size=41).map(tuple)}
                ),
                st.fixed_dictionaries({"frac": st.integers(-1, 42)}),
                st.fixed_dictionaries({"name": st.sampled_from(["", *"bvcirz"])}),
            )
        )
        nodes[position] = replace(node, **change)
    return nodes


@settings(max_examples=300, deadline=None)
@given(mutations())
def test_a_mutated_program_is_refused_or_is_canonical_and_evaluates(nodes: list[Node]) -> None:
    try:
        expression = rebuild(nodes, S)
    except InvalidQuery:
        return
    assert flatten(expression) == tuple(nodes)
    if expression.kind == Kind.BOOLEAN:
        record = S.encode({"b": 1, "v": "01" * 20, "c": "y", "i": 4, "r": 1})
        assert predicate(expression).evaluate(record) in (0, 1)
