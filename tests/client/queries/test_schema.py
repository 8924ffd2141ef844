"""Schemas and their fields: what is accepted, what a value becomes, and the canonical bytes."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.queries import encode_columns
from askance_client.errors import InvalidParameter, InvalidQuery, InvalidRecord
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Field,
    Integer,
    Kind,
    Label,
    Query,
    QueryKind,
    Real,
    Schema,
)
from askance_client.queries.schema import UnknownField

ADULT = Schema(
    "adult", 3, age=Integer(17, 90), education=Category(["HS", "BSc"]), income=Label([0, 1])
)


def test_fields_are_expressions_in_the_order_given() -> None:
    assert list(ADULT.fields) == ["age", "education", "income"]
    assert isinstance(ADULT.age, Expression)
    assert ADULT.age is ADULT["age"]
    assert (ADULT.age.kind, ADULT.age.low, ADULT.age.high) == (Kind.NUMBER, 17, 90)
    assert ADULT.income.labels == ("0", "1")
    assert {"age", "education", "income"} <= set(dir(ADULT))


def test_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(InvalidQuery, match=r"no field 'agee'; it has age, education, income"):
        _ = ADULT.agee
    with pytest.raises(UnknownField):
        _ = ADULT["agee"]
    assert not hasattr(ADULT, "agee")  # and so Python's own look-ups work


def test_a_field_may_have_the_name_of_a_schema_attribute() -> None:
    schema = Schema("clash", 1, name=Bit(), fields=Bit(), self=Bit(), _expressions=Bit())
    assert schema.name == "clash"
    assert schema["name"].kind == schema["fields"].kind == Kind.BOOLEAN
    assert schema.self.name == "self"
    assert schema["_expressions"].name == "_expressions"


def test_a_schema_is_immutable_and_travels() -> None:
    with pytest.raises(AttributeError):
        ADULT.version = 4  # type: ignore[misc]  # that it cannot be set is the point
    with pytest.raises(TypeError):
        ADULT.fields["age"] = Bit()  # type: ignore[index]  # that it cannot be set is the point
    assert pickle.loads(pickle.dumps(ADULT)) == ADULT == copy.deepcopy(ADULT)
    assert hash(pickle.loads(pickle.dumps(ADULT))) == hash(ADULT)


def test_of_is_the_constructor_for_computed_names() -> None:
    assert Schema.of("adult", 3, dict(ADULT.fields)) == ADULT


@pytest.mark.parametrize(
    "other",
    [
        Schema("adult2", 3, **ADULT.fields),
        Schema("adult", 4, **ADULT.fields),
        Schema.of("adult", 3, dict(reversed(list(ADULT.fields.items())))),
        Schema("adult", 3, age=Integer(17, 91), education=ADULT.fields["education"]),
        Schema("adult", 3, **{**ADULT.fields, "income": Category([0, 1])}),
        Schema("adult", 3, **{**ADULT.fields, "age": Real(17, 90, 0)}),
        Schema("adult", 3, **{**ADULT.fields, "education": Category(["H", "SBSc"])}),
    ],
)
def test_every_part_of_a_schema_is_in_its_digest(other: Schema) -> None:
    assert other.digest != ADULT.digest
    assert other != ADULT


def test_the_canonical_bytes_are_frozen() -> None:
    schema = Schema(
        "golden",
        7,
        a=Bit(),
        b=Bits(33),
        c=Category(["x", "é"]),
        d=Label([-1, 1]),
        e=Integer(-5, 9),
        f=Real("-1.5", 2, 4),
    )
    assert schema.digest.hex() == (
        "33bcd654abca32005a81467229556771d30f8cdb74b3bc797806e8df28d49018"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bits(0),
        lambda: Bits(-1),
        lambda: Bits(4097),
        lambda: Bits(4098),
        lambda: Bits(True),
        lambda: Bits("8"),  # type: ignore[arg-type]  # the refusal is the point
        lambda: Category([]),
        lambda: Category(["a", "a"]),
        lambda: Category(["1", 1]),
        lambda: Category(["a", "?"]),
        lambda: Category(["a", " "]),
        lambda: Category([1.5]),  # type: ignore[list-item]  # the refusal is the point
        lambda: Category([True]),
        lambda: Category(["\ud800"]),
        lambda: Category(["a" * 1025]),
        lambda: Category(["a" * 1026]),
        lambda: Category(range(65537)),
        lambda: Category(range(65538)),
        lambda: Integer(1, 1),
        lambda: Integer(2, 1),
        lambda: Integer(0, 1 << 62),
        lambda: Integer(0, 1.5),  # type: ignore[arg-type]  # the refusal is the point
        lambda: Real(1, 1),
        lambda: Real(0, math.inf),
        lambda: Real(math.nan, 1),
        lambda: Real("a", 1),
        lambda: Real(0, 1, 41),
        lambda: Real(0, 1, 42),
        lambda: Real(0, 1, -1),
        lambda: Real(0, 1, -2),
        lambda: Real.of_mantissas(0, 1, 41),
        lambda: Real.of_mantissas(0, 1, -1),
        lambda: Real(0, 1 << 46, 16),
        lambda: Real.of_mantissas(0, 1, 10**9),
        lambda: Schema("s", 1),
        lambda: Schema("", 1, a=Bit()),
        lambda: Schema("a\nb", 1, a=Bit()),
        lambda: Schema("s", -1, a=Bit()),
        lambda: Schema("s", -2, a=Bit()),
        lambda: Schema("s", (1 << 32) + 1, a=Bit()),
        lambda: Schema("s", True, a=Bit()),
        lambda: Schema("s", 1 << 32, a=Bit()),
        lambda: Schema("s", 1, **{"a b": Bit()}),
        lambda: Schema("s", 1, **{"a" * 65: Bit()}),
        lambda: Schema("s", 1, é=Bit()),
        lambda: Schema("s", 1, a=Bit(required=1)),  # type: ignore[arg-type]  # the refusal is the point
        lambda: Schema("s", 1, a=3),  # type: ignore[arg-type]  # the refusal is the point
        lambda: Schema.of("s", 1, {3: Bit()}),  # type: ignore[dict-item]  # the refusal is the point
        lambda: Schema("s", 1, **{f"f{i}": Bit() for i in range(4097)}),
        lambda: Schema("s", 1, **{f"f{i}": Bit() for i in range(4098)}),
    ],
)
def test_what_no_schema_may_have(make: object) -> None:
    with pytest.raises(InvalidParameter):
        make()  # type: ignore[operator]  # a lambda of the list


def test_a_required_field_changes_the_schema_only() -> None:
    optional = Schema("s", 1, age=Integer(0, 120), smokes=Bit())
    required = Schema("s", 1, age=Integer(0, 120, required=True), smokes=Bit())
    ends = bytes(8) + (120).to_bytes(8, "big")
    before = b"askance/schema/1\0\0\0\x01s" + (1).to_bytes(8, "big") + b"\0\0\0\x02\0\0\0\x03age"
    after = b"\x05" + ends + b"\0\0\0\x06smokes\x01"
    assert optional.canonical == before + after
    assert required.canonical == before + b"\x07" + after
    asked = [Query(QueryKind.REAL, schema.age, 0, 120, 60) for schema in (optional, required)]
    assert asked[0] == asked[1]  # the same bytes on the wire; the schema's digest tells them apart
    assert [query.evaluate(required.encode({"smokes": 1})) for query in asked] == [60, 60]


def test_bounds_of_a_real_are_rounded_outward_and_kept_exactly() -> None:
    field = Real("0.1", "0.9", 4)
    assert (field.low_mantissa, field.high_mantissa) == (1, 15)
    assert (field.low, field.high) == (Fraction(1, 16), Fraction(15, 16))
    assert Real(field.low, field.high, 4) == field == Real.of_mantissas(1, 15, 4)
    assert Real(-1e-300, Decimal("1e-300"), 40).high_mantissa == 1
    assert Real("-1/3", Fraction(1, 3), 0) == Real(-1, 1, 0)


CATEGORY = Category(["a", "1", "-2", "False"])


@pytest.mark.parametrize(
    ("field", "value", "encoded"),
    [
        (Bit(), 1, 1),
        (Bit(), False, 0),
        (Bit(), "1", 1),
        (Bit(), np.bool_(True), 1),
        (Bit(), 1.0, 1),
        (Bit(), 2, None),
        (Bit(), 0.5, None),
        (Bit(), "yes", None),
        (Bits(4), "0110", (6,)),
        (Bits(4), [1, 0, 0, 0], (1,)),
        (Bits(4), (0, 0, 0, True), (8,)),
        (Bits(4), np.array([0, 1, 0, 0]), (2,)),
        (Bits(33), "1" + "0" * 31 + "1", (1, 1)),
        (Bits(33), [1] + [0] * 31 + [1], (1, 1)),
        (Bits(4), "011", None),
        (Bits(4), [0, 1, 2, 0], None),
        (Bits(4), [0, 1, None, 0], None),
        (Bits(4), "01x0", None),
        (Bits(4), b"0110", None),
        (Bits(4), np.zeros((4, 1)), None),
        (Bits(1), np.array(1), None),
        (Bits(4), 6, None),
        (CATEGORY, "a", 0),
        (CATEGORY, "1", 1),
        (CATEGORY, 1, 1),
        (CATEGORY, 1.0, 1),
        (CATEGORY, np.int8(-2), 2),
        (CATEGORY, True, 1),
        (CATEGORY, False, 3),
        (CATEGORY, "b", None),
        (CATEGORY, 1.5, None),
        (CATEGORY, 0, None),
        (CATEGORY, ["a"], None),
        (CATEGORY, 10**30, None),
        (Integer(-5, 5), 3, 3),
        (Integer(-5, 5), "-3", -3),
        (Integer(-5, 5), " +3 ", 3),
        (Integer(-5, 5), 7, 5),
        (Integer(-5, 5), -(10**30), -5),
        (Integer(-5, 5), 2.5, 2),
        (Integer(-5, 5), 3.5, 4),
        (Integer(-5, 5), "-0.5", 0),
        (Integer(-5, 5), "1e400", 5),
        (Integer(-5, 5), "-1e999999999", -5),
        (Integer(-5, 5), Decimal("1e999999999"), 5),
        (Integer(-5, 5), "1e-999999999", 0),
        (Integer(-5, 5), "1e99999999999999999999", None),
        (Integer(-5, 5), "1_0", None),
        (Integer(-5, 5), "٣", None),
        (Integer(-5, 5), "9" * 200, None),
        (Integer(-5, 5), np.timedelta64(3, "s"), None),
        (Integer(-5, 5), 1j, None),
        (Integer(-5, 5), [1], None),
        (Real(-2, 2, 4), 0.1, 2),
        (Real(-2, 2, 4), "0.1", 2),
        (Real(-2, 2, 4), "1/3", 5),
        (Real(-2, 2, 4), "1/0", None),
        (Real(-2, 2, 4), Decimal("0.03125"), 0),  # a tie: to even
        (Real(-2, 2, 4), Fraction(3, 32), 2),
        (Real(-2, 2, 4), np.float32(1.5), 24),
        (Real(-2, 2, 4), 1e308, 32),
        (Real(-2, 2, 4), -1e308, -32),
        (Real(-2, 2, 4), Decimal("sNaN"), None),
        (Real(-2, 2, 4), Decimal("Infinity"), None),
    ],
)
def test_a_value_on_the_grid(field: Field, value: object, encoded: object) -> None:
    record = Schema("s", 1, z=field).encode({"z": value})
    assert record.present["z"] is (encoded is not None)
    if encoded is not None:
        assert record.values["z"] == encoded


@pytest.mark.parametrize("field", [Bit(), Bits(3), CATEGORY, Integer(4, 9), Real(-3, -1)])
@pytest.mark.parametrize(
    "missing", [None, math.nan, math.inf, -math.inf, "", "?", " ", "nan", "inf", object()]
)
def test_what_is_missing_is_not_present_and_no_error(field: Field, missing: object) -> None:
    schema = Schema("s", 1, z=field)
    for record in (schema.encode({"z": missing}), schema.encode({})):
        assert record.present == {"z": False}
        value = record.values["z"]
        if not isinstance(value, tuple):  # what stands there stays within the inferred bounds
            assert schema.z.low <= value <= schema.z.high


def test_unknown_fields_are_refused_without_repeating_values() -> None:
    with pytest.raises(InvalidRecord, match=r"found 1 unknown: zip$") as refused:
        ADULT.encode({"age": 30, "zip": "secret"})
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidRecord, match="4 unknown: a, b, c, "):
        encode_columns(ADULT, {"a": [1], "b": [1], "c": [1], "d": [1]})


def test_three_unknown_fields_are_named_and_of_more_the_first_three() -> None:
    with pytest.raises(InvalidRecord, match=r"found 3 unknown: a, b, c$"):
        ADULT.encode({"a": 1, "b": 1, "c": 1})
    with pytest.raises(InvalidRecord, match=r"found 4 unknown: a, b, c, \.\.\.$"):
        ADULT.encode({"a": 1, "b": 1, "c": 1, "d": 1})
    with pytest.raises(InvalidRecord, match=r"found 2 unknown: a, b$"):
        ADULT.encode({"a": 1, "b": 1})
    with pytest.raises(InvalidRecord, match=r"found 5 unknown: a, b, c, \.\.\.$"):
        ADULT.encode({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})


@pytest.mark.parametrize(("fields", "more"), [(19, ""), (20, ""), (21, ", ..."), (22, ", ...")])
def test_an_unknown_field_is_told_twenty_known_ones(fields: int, more: str) -> None:
    schema = Schema.of("s", 1, {f"f{k}": Bit() for k in range(fields)})
    with pytest.raises(UnknownField) as refused:
        _ = schema["g"]
    assert str(refused.value).endswith(
        "it has " + ", ".join(f"f{k}" for k in range(min(fields, 20))) + more
    )


def test_what_is_missing_stands_as_the_value_nearest_to_0() -> None:
    schema = Schema(
        "m",
        1,
        b=Bit(),
        v=Bits(33),
        c=Category(["x", "y"]),
        above=Integer(2, 9),
        below=Real(-3, -1, 1),
        around=Integer(-3, 9),
    )
    record = schema.encode({})
    assert not any(record.present.values())
    assert record.values == {
        "b": 0,
        "v": (0, 0),
        "c": 0,
        "above": 2,
        "below": -2,
        "around": 0,
    }


@pytest.mark.parametrize("digits", ["000", "111", "011", "100"])
def test_bits_are_read_from_a_text_from_the_left(digits: str) -> None:
    expected = (sum(1 << k for k in range(3) if digits[k] == "1"),)
    assert Bits(3).encode(digits) == Bits(3).encode(list(map(int, digits))) == expected
    for wrong in (digits[:2], digits + "0", digits[:2] + "2"):
        assert Bits(3).encode(wrong) is None


def test_a_schema_is_accepted_at_its_limits() -> None:
    for version in (0, (1 << 32) - 1):
        assert Schema("s", version, a=Bit()).version == version
    assert Schema("n" * 128, 1, a=Bit()).name == "n" * 128
    for length in (129, 130):
        with pytest.raises(InvalidParameter, match=r"a printable name of 1\.\.128 characters"):
            Schema("n" * length, 1, a=Bit())
    longest = "a" * 64
    assert longest in Schema.of("s", 1, {longest: Bit()})
    assert len(Schema.of("s", 1, {f"f{k}": Bit() for k in range(4096)}).fields) == 4096
    end = (1 << 62) - 1
    assert (Integer(-end, end).low, Integer(-end, end).high) == (-end, end)
    for low, high in ((-end - 1, 0), (0, end + 1), (0, end + 2), (-2 * end, end)):
        with pytest.raises(InvalidParameter, match=r"below 2\^62 grid units"):
            Integer(low, high)
    assert [Real(0, 1, frac).type.high for frac in (0, 40)] == [1, 1 << 40]
    assert [Bits(width).words for width in (1, 32, 33, 4096)] == [1, 1, 2, 128]
    assert Category(range(65536)).type.high == 65535
    assert Category(["a" * 1024]).labels == ("a" * 1024,)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "\ud800", "\udc00"], "label 1 is not valid Unicode text"),
        (["a", "b", " ? "], 'label 2 is " ? ", which stands for a missing value'),
        (["", "b"], 'label 0 is "", which stands for a missing value'),
        (["a", "é" * 513, "b" * 1025], "label 1 expects at most 1024 bytes, found 1026"),
        ([3, 1.5], "label 1 expects an integer, found float"),
        ([3, "3"], "Category expects distinct labels, found a label twice"),
        ([], "Category expects 1..65536 labels, found 0"),
    ],
)
def test_a_label_that_cannot_be_is_named_by_its_place(labels: list[str | int], said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        Category(labels)
    assert str(refused.value) == said


def test_labels_are_written_with_their_number_and_sizes() -> None:
    labels = ("a", "é" * 512, "bb", "7")
    expected = b"".join(len(one.encode()).to_bytes(4, "big") + one.encode() for one in labels)
    assert Category((*labels[:3], 7)).canonical == b"\3\0\0\0\4" + expected
    assert Label(labels).canonical == b"\4\0\0\0\4" + expected


def test_an_integer_too_long_to_write_is_still_only_a_value() -> None:
    schema = Schema("s", 1, c=CATEGORY, i=Integer(0, 3), b=Bit())
    record = schema.encode({"c": 1 << 20000, "i": 1 << 20000, "b": 1 << 20000})
    assert record.present == {"c": False, "i": True, "b": False}
    assert record.values["i"] == 3
