"""Values in error messages: the caller's own, short, and without what steers a terminal."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from askance_aggregator.numbers import at_least_one
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import TomlTable, a_text, texts, true_or_false


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("verbose", "'verbose'"),
        ("", "''"),
        ("a\x1b[2Jb", r"'a\x1b[2Jb'"),
        (3, "3"),
        (True, "True"),
        (None, "None"),
        (0.5, "0.5"),
        (Fraction(1, 3), "1/3"),
        (Fraction(2), "2"),
        (Decimal("0.50"), "0.50"),
        (np.float64(1.5), "1.5"),
        (np.int64(7), "7"),
        (b"token", "5 bytes"),
        (Path("a b") / "c", "'a b/c'"),
        ([1, "x"], "[1, 'x']"),
        (10**5000, "a number of 16610 bits"),
        (Fraction(1, 10**5000), "1/a number of 16610 bits"),
        ([10**5000], "a list"),
        (np.array([[1, 2], [3, 4]]), "array([[1, 2],        [3, 4]])"),
    ],
    ids=range(19),
)
def test_a_value_is_shown_as_it_was_written(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    "value", ["x" * 10**6, list(range(1000)), Path("p" * 5000), "\x00" * 99], ids=range(4)
)
def test_a_long_value_is_cut(value: object) -> None:
    text = value_text(value)
    assert len(text) == 80
    assert text.endswith("...")
    assert text.isprintable()


def test_a_private_key_in_the_wrong_place_is_not_shown() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----\n"
    assert value_text(key) == "PEM text"
    with pytest.raises(InvalidParameter) as caught:
        TomlTable({"level": key}, "a.toml").need("level", at_least_one)
    assert "MC4C" not in str(caught.value)


def test_an_unknown_name_is_shown_with_the_nearest_one() -> None:
    known = ["objects", "grpc"]
    assert (
        unknown_text("grcp", known)
        == "expected one of objects, grpc, got 'grcp' (did you mean grpc?)"
    )
    assert unknown_text(7, known) == "expected one of objects, grpc, got 7"


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (a_text, 3, "expected a text, got 3"),
        (a_text, "", "expected a text, got ''"),
        (at_least_one, 0, "expected a whole number of 1 or more, got 0"),
        (at_least_one, "5", "expected a whole number of 1 or more, got '5'"),
        (true_or_false, "yes", "expected true or false, got 'yes'"),
        (texts, "ab", "expected an array of texts, got 'ab'"),
        (texts, ["a", 1], "expected a text, got 1"),
    ],
)
def test_a_value_of_a_table_is_shown(read: object, value: object, message: str) -> None:
    assert callable(read)
    with pytest.raises(InvalidParameter) as caught:
        TomlTable({"key": value}, "a.toml", "table.").need("key", read)
    assert str(caught.value) == f"a.toml: table.key: {message}"


def test_an_unknown_key_of_a_table_is_shown_with_the_nearest_one() -> None:
    table = TomlTable({"limits": {"stream": 3}}, "a.toml")
    limits = table.need_table("limits")
    limits.get("streams", at_least_one)
    limits.get("connections", at_least_one)
    with pytest.raises(InvalidParameter) as caught:
        table.finish()
    assert str(caught.value) == (
        "a.toml: limits.stream: expected one of connections, streams, got 'stream'"
        " (did you mean streams?)"
    )


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ({"aggregate": 1}, " (did you mean aggregator by 'aggregate'?)"),
        ({"unlike": 1}, ""),
        ({}, ""),
    ],
)
def test_a_missing_key_is_shown_with_its_misspelling(content: dict[str, int], hint: str) -> None:
    table = TomlTable(content, "a.toml")
    for need in (lambda: table.need("aggregator", a_text), lambda: table.need_table("aggregator")):
        with pytest.raises(InvalidParameter) as caught:
            need()
        assert str(caught.value).startswith("a.toml: aggregator: expected a ")
        assert str(caught.value).endswith(f", got none{hint}")
