"""Questions in an owner's own words: bounds of the value, cells by the values that lead to them."""

from __future__ import annotations

import pytest

import askance as ask
from askance_aggregator import learners
from askance_aggregator.learners import Learner
from askance_aggregator.queries import bucketize, category, index_of, predicate, real, where
from askance_client.cli.explaining import asked
from askance_client.cli.wording import level_name, question
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Expression,
    Integer,
    Op,
    Query,
    Real,
    Schema,
)

SCHEMA = Schema(
    "people",
    1,
    age=Integer(17, 90),
    height=Real("0.5", "2.5"),
    smoker=Bit(),
    education=Category(("school", "college", "university")),
)


def first(learner: Learner[object]) -> Query:
    """Return the first question of a learner."""
    return next(learner.bound(SCHEMA).run()).questions[0].query


WIDE = Schema(
    "wide",
    1,
    pay=Real(0, 100_000),
    steps=Integer(0, 1 << 20),
    word=Bits(248),
    flags=Bits(40),
    town=Category(("(missing)", *[f"town {place}" for place in range(30)])),
)
HARD = Schema(
    "hard",
    1,
    smoker=Bit(),
    seen=Category(("a", "b", "a or b", "x, y", "any other", "sick, which no value has", "Not a")),
    fine=Real(0, 1, frac_bits=40),
)
RANGE = bucketize(WIDE.pay, [1000, "2500.5", 90_000])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (real(SCHEMA.age), "What is your age, from 17 to 90?"),
        (first(learners.mean(SCHEMA, "age")), "What is your age, from 17 to 90?"),
        (first(learners.mean(SCHEMA, "height")), "What is your height, from 0.5 to 2.5?"),
        (first(learners.mean(SCHEMA, "smoker")), "Yes or no: your smoker is yes?"),
        (
            real(SCHEMA.age * 2),
            "What is the number, from 34 to 180, that follows from your age?",
        ),
        (
            real(where(SCHEMA.smoker, SCHEMA.age, 100)),
            "What is your age if your smoker is yes, and 100 if not, from 17 to 100?",
        ),
        (predicate(SCHEMA.smoker == 1), "Yes or no: your smoker is yes?"),
        (predicate(~SCHEMA.smoker), "Yes or no: your smoker is no?"),
        (predicate(SCHEMA.age > 40), "Yes or no: your age is at least 41?"),
        (predicate(SCHEMA.age != 40), "Yes or no: your age is at most 39 or at least 41?"),
        (predicate(SCHEMA.age * SCHEMA.age > 1600), "Yes or no: your age is at least 41?"),
        (predicate((SCHEMA.age > 40) & (SCHEMA.age <= 45)), "Yes or no: your age is 41 to 45?"),
        (
            predicate((SCHEMA.age > 40) & (SCHEMA.education == "college")),
            "Yes or no: your age is at least 41 and your education is college?",
        ),
        (
            predicate((SCHEMA.age > 40) | SCHEMA.smoker | (SCHEMA.education != "college")),
            "Yes or no: your age is at least 41 or your smoker is yes or your education is school"
            " or university?",
        ),
        (
            predicate((SCHEMA.age > 40) & (SCHEMA.smoker | (SCHEMA.education == "college"))),
            "Yes or no, by a rule on your age, smoker and education?",
        ),
        (
            predicate((SCHEMA.age != 40) & SCHEMA.smoker),
            "Yes or no: your age is at most 39 or at least 41, and your smoker is yes?",
        ),
        (
            predicate((WIDE.town != "town 7") & (WIDE.town != "town 9")),
            "Yes or no: your town is neither town 7 nor town 9?",
        ),
        (
            predicate(SCHEMA.age > 40, default=1),
            "Yes or no: your age is at least 41, or is a value missing?",
        ),
        (
            predicate(SCHEMA.age > SCHEMA.smoker, default=1),
            "Yes or no, by a rule on your smoker and age, or is a value missing?",
        ),
        (predicate(HARD.seen == "a or b"), "Yes or no: your seen is 'a or b'?"),
        (predicate((HARD.seen == "a") | (HARD.seen == "b")), "Yes or no: your seen is a or b?"),
        (
            category(HARD.seen),
            "Which of a, b, 'a or b', 'x, y', 'any other', 'sick, which no value has', 'Not a' is"
            " your seen?",
        ),
        (
            predicate(HARD.fine < ask.constant(2**-30, 40)),
            "Yes or no: your fine is below 0.0000000009313?",  # 2^-30 is 9.313...e-10
        ),
        (category(ask.first([SCHEMA.age > 16])), "Which of any value or no value is your age?"),
        (predicate(SCHEMA.age > 100), "Yes or no, by a rule on your age?"),
        (predicate(WIDE.pay < 1000), "Yes or no: your pay is below 1000?"),
        (predicate(WIDE.steps <= 9000), "Yes or no: your steps is at most 9000?"),
        (predicate(WIDE.steps == 9000), "Yes or no: your steps is 9000?"),
        (predicate(WIDE.steps * 2 <= 9000), "Yes or no, by a rule on your steps?"),
        (predicate(WIDE.flags[35]), "Yes or no: bit 35 of your flags is yes?"),
        (predicate(WIDE.town != "town 7"), "Yes or no: your town is not town 7?"),
        (
            category(SCHEMA.education),
            "Which of school, college, university is your education?",
        ),
        (
            category(RANGE),
            "Which of below 1000 or no value, 1000 to below 2500.5, 2500.5 to below 90000, at"
            " least 90000 is your pay?",
        ),
        (
            category(ask.first([WIDE.town == "town 3", WIDE.town == "town 9"])),
            "Which of town 3 or no value, town 9, any other is your town?",
        ),
        (
            category(index_of(RANGE) * 2),
            "Which of below 1000 or no value, 1000 to below 2500.5, 2500.5 to below 90000, at"
            " least 90000 is your pay?",
        ),
        (
            first(learners.heavy_hitters(WIDE, "town", candidates=["town 3", "town 9"])),
            "Which of town 3, town 9, any other or no value is your town?",
        ),
        (
            first(learners.heavy_hitters(WIDE, "steps", candidates=["7000"])),
            "Which of 2 groups are you in, by your steps?",
        ),
        (
            first(learners.mean_vector(SCHEMA, columns="age")),
            "Which signs have 2 numbers, from -1 to 1, that follow from your age?",
        ),
    ],
)
def test_a_question_is_a_question(query: Query, expected: str) -> None:
    assert question(query) == expected


@pytest.mark.parametrize(
    ("doubled", "expected"),
    [
        (5, "Yes or no: your age is at least 41 and your smoker is yes?"),
        (50, "Yes or no, by a rule on your age and smoker?"),  # 2^50 paths to each of them
    ],
)
def test_a_condition_that_many_paths_lead_to_is_worded_once(doubled: int, expected: str) -> None:
    value = (SCHEMA.age > 40) & SCHEMA.smoker
    for _ in range(doubled):
        value = value & value
    assert question(predicate(value)) == expected


def test_of_more_conditions_than_a_sentence_has_the_fields_are_named() -> None:
    value = WIDE.flags[0] & WIDE.word[0]
    for place in range(1, 20):
        value = value & WIDE.flags[place]
    assert question(predicate(value)) == "Yes or no, by a rule on your flags and word?"


def test_all_fields_of_a_question_are_named_whatever_their_number() -> None:
    """A study chooses the order of its fields, and must not hide one behind the first eight."""
    names = [f"harmless{place}" for place in range(11)] + ["diagnosis"]
    schema = ask.Schema("s", **{name: ask.Integer(0, 9) for name in names})
    total = schema[names[0]]
    for name in names[1:]:
        total = total + schema[name]
    told = question(predicate(total > 40))
    assert [name for name in names if name not in told] == []
    assert " more" not in told


def test_an_expression_that_takes_long_is_not_evaluated_on_all_values() -> None:
    """74 ages times 4,096 edges: of twelve such nodes a page would take minutes."""
    buckets = index_of(bucketize(SCHEMA.age, range(100, 4196)))
    assert question(predicate(buckets == 3)) == "Yes or no, by a rule on your age?"


@pytest.mark.parametrize("name", [entry.name for entry in learners.learners()])
def test_no_question_of_a_learner_has_an_operator_in_it(name: str) -> None:
    """A formula stands beside it, unless the question is a field."""
    run = learners.find(name).build(None, {}).run()
    for one in next(run).questions:
        told = asked(one.query)
        words = told["question"].rstrip("?").replace("(missing)", "").replace("-", "")
        assert not set(words) & set("()[]<>=&|~*+?"), words
        assert len(words) < 400
        assert ("formula" in told) == (one.query.expression.op != Op.FIELD)


@pytest.mark.parametrize(
    "value",
    [
        index_of(bucketize(SCHEMA.age * 3 - 20, [100, 101, 180])),
        ask.clip(index_of(SCHEMA.education) * 2 - 1, 0, 3),
        ask.clip(SCHEMA.age - 40, 0, 20),
    ],
)
def test_every_value_is_among_the_words_of_its_own_cell(value: Expression) -> None:
    query = category(value)
    (name,) = query.fields_used
    kind = SCHEMA.fields[name]
    values = kind.labels if isinstance(kind, Category) else range(17, 91)
    for given in values:
        cell = query.evaluate(SCHEMA.encode({name: given}))
        words = level_name(query, cell, query.cells).removesuffix(" or no value")
        assert is_in(given, words), (given, words)


def is_in(value: str | int, words: str) -> bool:
    """Read words as a reader would, with no use of what made them."""
    for part in words.split(" or "):
        if isinstance(value, str):
            if part == value:
                return True
        elif part.startswith("at most "):
            if value <= int(part.removeprefix("at most ")):
                return True
        elif part.startswith("at least "):
            if value >= int(part.removeprefix("at least ")):
                return True
        elif int(part.split(" to ")[0]) <= value <= int(part.split(" to ")[-1]):
            return True
    return False


def test_a_level_beyond_a_number_s_bounds_is_that_of_no_value() -> None:
    missing = first(learners.mean(SCHEMA, "age"))
    assert [level_name(missing, level, 3) for level in range(3)] == ["17", "90", "no value"]
    assert [level_name(real(SCHEMA.age), level, 2) for level in range(2)] == ["17", "90"]
