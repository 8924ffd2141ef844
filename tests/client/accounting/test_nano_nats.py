"""Budgets as users write them, and as they are kept."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.accounting import (
    LEAST_LOSS,
    MAX_NANO_NATS,
    check_nano_nats,
    format_nats,
    parse_epsilon,
)
from askance_client.errors import InvalidParameter


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0.5", 500_000_000),
        ("1", 10**9),
        (1, 10**9),
        (" 1e-3 ", 10**6),
        (Decimal("0.1"), 100_000_000),
        (Fraction(1, 3), 333_333_333),
        ("0.0000000019", 1),
        ("1e-9", 1),
        ("1000000", MAX_NANO_NATS),
        ("1E+6", MAX_NANO_NATS),
    ],
)
def test_it_is_read_exactly_and_rounded_down(written: Any, nano: int) -> None:
    assert parse_epsilon(written) == nano


@pytest.mark.parametrize(
    "written",
    [
        *["0", "-1", "-0.0", "1e-10", "1000000.0000001", "nan", "sNaN", "inf", "-inf", "half", ""],
        *["1/", "0.5 nats", "1" * 65, "1" * 66, "0." + "1" * 63, 0, -3],
        *[10**6 + 1, 10**6 + 2, True, 0.5, None, "9e-10", "0.00000000099", "1000001", "1000002"],
        *[Decimal("NaN"), Fraction(-1, 2)],
    ],
)
def test_anything_else_is_refused(written: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        parse_epsilon(written)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        *(
            (written, "epsilon: expected a positive number of nats, got")
            for written in ("0", "-0", 0, "-1e-9", -1, -2)
        ),
        *((written, "at least 10^-9 nats, got") for written in ("1e-10", "9.99e-10", "1e-64")),
        *((written, "at most 10^6 nats, got") for written in (10**6 + 1, 10**6 + 2, "1000000.1")),
        *(
            (written, "a finite number of nats, got")
            for written in ("nan", "inf", "-inf", Decimal("sNaN"))
        ),
        *(
            (written, 'nats as "0.5" or "1/2", up to 64 characters, got')
            for written in ("", "half", "1/", "/2", "1/0", "1/2/3", "1e3/2", "1" * 65, "1/" * 40)
        ),
        *((written, "text, int, Decimal or Fraction") for written in (True, 0.5, None, b"1")),
    ],
)
def test_a_refusal_names_what_was_expected(written: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        parse_epsilon(written)


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("1/2", 500_000_000),
        ("10/3", 3_333_333_333),
        (" 2/3 ", 666_666_666),  # rounded down
        ("5/1", 5_000_000_000),
        ("1/1000000000", 1),
        (f"1/{10**60}", "at least 10^-9"),
        ("-1/2", "a positive number"),
        ("2000001/2", "at most 10^6"),
    ],
)
def test_a_fraction_is_read_exactly(written: str, nano: int | str) -> None:
    if isinstance(nano, int):
        assert parse_epsilon(written) == nano
    else:
        with pytest.raises(InvalidParameter, match=re.escape(nano)):
            parse_epsilon(written)


@pytest.mark.parametrize("written", ["1e999999999", "1e-999999999", Decimal("1e999999")])
def test_an_exponent_is_not_expanded(written: str | Decimal) -> None:
    """Reproduction: Fraction("1e999999999") computes ten to that power."""
    with pytest.raises(InvalidParameter, match="epsilon"):
        parse_epsilon(written)


@pytest.mark.parametrize("nano", [0, 1, MAX_NANO_NATS - 1, MAX_NANO_NATS])
def test_a_budget_is_given_back(nano: int) -> None:
    assert check_nano_nats(nano) == nano
    if nano:
        assert parse_epsilon(format_nats(nano)) == nano


@pytest.mark.parametrize("nano", [-2, -1, MAX_NANO_NATS + 1, MAX_NANO_NATS + 2, 10**40])
def test_what_is_past_the_ends_is_no_budget(nano: int) -> None:
    with pytest.raises(InvalidParameter, match=r"budget: expected 0\.\.10\^15 nano-nats"):
        check_nano_nats(nano)


@pytest.mark.parametrize("text", ["1." + "0" * 62, "0" * 63 + "1"])
def test_a_text_of_64_characters_is_read(text: str) -> None:
    assert len(text) == 64
    assert parse_epsilon(text) == 10**9


@given(st.integers(1, MAX_NANO_NATS))
def test_what_is_shown_reads_back(nano: int) -> None:
    assert parse_epsilon(format_nats(nano)) == nano


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (0, "0"),
        (5 * 10**8, "0.5"),
        (2 * 10**9, "2"),
        (1, "0.000000001"),
        (10**9 + 10, "1.00000001"),
    ],
)
def test_it_is_shown_in_nats(nano: int, shown: str) -> None:
    assert format_nats(nano) == shown
    assert format_nats(-nano) == (f"-{shown}" if nano else "0")


def test_a_question_costs_a_thousandth_of_a_nat_at_least() -> None:
    assert LEAST_LOSS == 1_000_000
