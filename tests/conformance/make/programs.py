"""Generated programs: typed at random, evaluated, and changed at random."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from askance_aggregator.encoding import encode_query, encode_schema
from askance_client.errors import InvalidQuery
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Kind,
    Label,
    Op,
    Query,
    QueryKind,
    Real,
    Schema,
)
from askance_client.queries.expressions import build
from askance_client.queries.inference import SHAPES
from askance_protos.v1 import query_pb2
from tests.conformance.make.from_vectors import Json, case

COLOURS = ("red", "green", "blue")
SCHEMAS = (
    Schema(
        "person",
        1,
        b=Bit(),
        c=Category(COLOURS),
        d=Category(COLOURS),
        age=Integer(0, 120),
        height=Real(0, "2.5"),
        ill=Label(("no", "yes")),
        v=Bits(35),
    ),
    Schema("wide", 2, n=Integer(-(1 << 61), 1 << 61), e=Integer(1 - (1 << 62), (1 << 62) - 1),
           r=Real(-1, 2, 40), q=Real(-100, 100, 8), w=Bits(64), p=Bit()),
    Schema("small", 3, i=Integer(-3, 4), j=Integer(0, 1), x=Real(-1, 1, 3), v=Bits(1),
           c=Category(("0", "1", "True"))),
)  # fmt: skip
RECORDS = 3  # per program
NUMERIC = (Kind.BOOLEAN, Kind.NUMBER)
WANTED = {
    **dict.fromkeys((Op.COMPONENT, Op.PARITY), (Kind.BITS,)),
    **dict.fromkeys((Op.AND, Op.OR, Op.NOT, Op.FIRST), (Kind.BOOLEAN,)),
    Op.INDEX: (Kind.CATEGORY,),
}
OPS = [op for op in SHAPES if op is not Op.VECTOR]


def program_cases(random: Random, count: int) -> Iterator[Json]:
    """Yield programs, each with records."""
    for number in range(count):
        schema = random.choice(SCHEMAS)
        rows = [record(random, schema) for _ in range(RECORDS)]
        query = None
        while query is None:
            query = _query(random, schema, rows[0])
        used = [
            {name: row[name] for name in sorted(query.fields_used) if name in row} for row in rows
        ]
        yield case(
            "evaluate",
            f"program {number}",
            schema=encode_schema(schema).SerializeToString(deterministic=True).hex(),
            query=encode_query(query).SerializeToString(deterministic=True).hex(),
            records=used,
        )


def record(random: Random, schema: Schema) -> Json:
    """Draw a record: ends of ranges are likely, and so are values that are missing."""
    row: Json = {}
    for name, field in schema.fields.items():
        kind = field.type
        if random.random() < 0.06:
            if random.random() < 0.5:
                row[name] = random.choice([None, "?", "", "none", "nan"])
            continue
        if kind.kind is Kind.BITS:
            row[name] = "".join(random.choice("01") for _ in range(kind.width))
            continue
        ends = [kind.low, kind.high, kind.low + 1, min(max(0, kind.low), kind.high)]
        value = random.choice([*ends, *[random.randint(kind.low, kind.high)] * 8])
        if kind.labels:
            row[name] = kind.labels[value]
        elif kind.frac:
            row[name] = f"{value}/{1 << kind.frac}"
        else:
            row[name] = value if abs(value) < 1 << 53 else str(value)
    return row


def _query(random: Random, schema: Schema, row: Json) -> Query | None:
    """A random query; None where the last expression cannot be asked."""
    pool = _grown(random, schema)
    root = pool[-1]
    try:
        if random.random() < 0.1:
            numbers = [e for e in pool if e.kind in NUMERIC]
            parts = tuple(random.choices(numbers, k=random.randint(1, 6)))
            frac = max(part.frac for part in parts)
            grid = random.randint(frac, min(frac + 3, 40))
            root = build(Op.VECTOR, parts, grid=grid)
            return _bounded(random, QueryKind.VECTOR, root, schema, row)
        if root.kind is Kind.BOOLEAN:
            if random.random() < 0.2:
                return Query(QueryKind.REAL, root, 0, 1, random.randint(0, 1))
            return Query(QueryKind.PREDICATE, root, 0, 1, random.randint(0, 1))
        if root.kind is Kind.CATEGORY or (root.frac == 0 and root.low >= 0 and root.high < 50):
            kind = random.choice([QueryKind.CATEGORY, QueryKind.SIGNED])
            return Query(kind, root, 0, root.high, random.randint(0, root.high))
        return _bounded(random, QueryKind.REAL, root, schema, row)
    except InvalidQuery:
        return None


def _bounded(random: Random, kind: QueryKind, root: Expression, schema: Schema, row: Json) -> Query:
    """A query whose range has the value of the first record, or is near it."""
    low, high = max(root.low, 1 - (1 << 62)), min(root.high, (1 << 62) - 1)
    if high - low >= 1 << 31 or random.random() < 0.3:
        near = _near(kind, root, schema, row)
        reach = random.choice([3, 1000, 1 << 20])
        low = max(near - random.randint(1, reach), 2 - (1 << 62))
        high = min(near + random.randint(1, reach), (1 << 62) - 2)
    return Query(kind, root, low, high, random.randint(low, high))


def _near(kind: QueryKind, root: Expression, schema: Schema, row: Json) -> int:
    wide = Query(kind, root, 0, 1, 0)
    encoded = schema.encode(row)
    value: Any = wide.compiled.run([encoded.values[name] for name in wide.compiled.names])
    return int(value[0] if kind is QueryKind.VECTOR else value)


def _grown(random: Random, schema: Schema) -> list[Expression]:
    """Expressions that use each other: the fields, and up to 14 operations."""
    pool = [schema[name] for name in schema.fields]
    for _ in range(random.randint(1, 14)):
        for _ in range(20):
            try:
                pool.append(_operation(random, pool))
            except (InvalidQuery, IndexError):
                continue
            break
    return pool


def _operation(random: Random, pool: list[Expression]) -> Expression:
    op = random.choice(OPS)
    shape = SHAPES[op]
    wanted = WANTED.get(op, NUMERIC)
    if op is Op.DOT and random.random() < 0.3:
        wanted = (Kind.BITS,)
    if op in (Op.EQUAL, Op.WHERE) and random.random() < 0.3:
        wanted = (Kind.CATEGORY,)
    fitting = [e for e in pool if e.kind in wanted]
    fitting += fitting[-3:] * 2  # what was built last is used more often
    number = random.randint(shape.args[0], min(shape.args[1], 4))
    if wanted == (Kind.BITS,):
        number = 1
    args = [random.choice(fitting) for _ in range(number)]
    if op is Op.WHERE:
        args[0] = random.choice([e for e in pool if e.kind is Kind.BOOLEAN])
    if op is Op.EQUAL and wanted == (Kind.CATEGORY,) and random.random() < 0.5:
        args[1] = build(Op.CONSTANT, constants=(random.randint(0, 2),))
    constants, grid = _constants(random, op, args)
    return build(op, tuple(args), constants=constants, grid=grid)


def _constants(random: Random, op: Op, args: list[Expression]) -> tuple[tuple[int, ...], int]:
    """Constants and grid of an operation: small ones near 0, now and then a large one."""
    shape = SHAPES[op]
    grid = random.choice([0, 0, 1, 3, 8, 16]) if shape.states_grid else 0
    if op is Op.ROUND:
        grid = max(args[0].frac - random.randint(1, 6), 0)
    if op is Op.COMPONENT:
        return (random.randrange(args[0].width),), 0
    if op is Op.PARITY:
        mask = random.getrandbits(args[0].width)
        return tuple(mask >> place & 0xFFFFFFFF for place in range(0, args[0].width, 32)), 0
    number = random.randint(shape.constants[0], min(shape.constants[1], 5))
    if op is Op.DOT:
        number = args[0].width if args[0].kind is Kind.BITS else len(args)
    scale = random.choice([3, 1 << grid, 5 << grid, 200 << grid, 1 << 40])
    constants = [random.randint(-scale, scale) for _ in range(number)]
    if op in (Op.CLIP, Op.BUCKETIZE):
        constants = sorted(set(constants)) if op is Op.BUCKETIZE else sorted(constants)
    return tuple(constants), grid


def changed_cases(random: Random, programs: list[Json]) -> Iterator[Json]:
    """Yield programs with one number changed; some are accepted and most are refused."""
    for number, program in enumerate(programs):
        given = program["input"]
        message = query_pb2.Query.FromString(bytes.fromhex(given["query"]))
        change = random.choice(CHANGES)
        change(random, message)
        data = message.SerializeToString(deterministic=True)
        name = f"changed {number}: {change.__name__.strip('_')}"
        yield case("query", name, schema=given["schema"], bytes=data.hex())


def _operation_number(random: Random, message: Any) -> None:
    random.choice(message.nodes).op = random.randint(0, 28)


def _argument(random: Random, message: Any) -> None:
    node = random.choice([n for n in message.nodes if n.args] or message.nodes)
    node.args[:] = [random.randrange(len(message.nodes)) for _ in node.args or [0]]


def _constant_value(random: Random, message: Any) -> None:
    node = random.choice([n for n in message.nodes if n.constants] or message.nodes)
    delta = random.choice([-1, 1, 1 << 20, -(1 << 61), 1 << 62])
    node.constants[:] = [c + delta if abs(c + delta) < 1 << 63 else c for c in node.constants]


def _grid(random: Random, message: Any) -> None:
    random.choice(message.nodes).frac = random.choice([-1, 1, 2, 16, 40, 41])


def _order(random: Random, message: Any) -> None:
    nodes = list(message.nodes)
    i, j = random.randrange(len(nodes)), random.randrange(len(nodes))
    nodes[i], nodes[j] = nodes[j], nodes[i]
    del message.nodes[:]
    message.nodes.extend(nodes)


def _one_more(random: Random, message: Any) -> None:
    message.nodes.add().CopyFrom(random.choice(list(message.nodes)))


def _one_less(random: Random, message: Any) -> None:
    del message.nodes[random.randrange(len(message.nodes))]


def _bounds(random: Random, message: Any) -> None:
    name = random.choice(["low", "high", "default"])
    delta = random.choice([-1, 1, 1 << 31, -(1 << 31), 1 << 61])
    setattr(message, name, getattr(message, name) + delta)


def _kind(random: Random, message: Any) -> None:
    message.kind = random.randint(0, 6)


def _name(random: Random, message: Any) -> None:
    random.choice(message.nodes).name = random.choice(["age", "none", "b", ""])


CHANGES = (
    *(_operation_number, _argument, _argument, _constant_value, _constant_value),
    *(_grid, _order, _one_more, _one_less, _bounds, _bounds, _kind, _name),
)
