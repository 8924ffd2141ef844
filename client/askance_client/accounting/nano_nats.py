"""Unit of every budget: an integer number of nano-nats, parsed from and formatted as nats."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

NANO_NATS_PER_NAT = 10**9
MAX_NANO_NATS = 10**6 * NANO_NATS_PER_NAT

# The least loss of a question that a device answers, in nano-nats. It follows from no owner's
# budget, which it would reveal. With `ledger.MAX_ANSWERS` of them a device has spent 65.536 nats:
# answers that cost next to nothing use up no life budget of 65 nats or less by their number.
LEAST_LOSS = NANO_NATS_PER_NAT // 1000

_MAX_TEXT = 64


def check_nano_nats(nano: int) -> int:
    """Give `nano` back if it is a budget: an int in 0..MAX_NANO_NATS."""
    if isinstance(nano, bool) or not isinstance(nano, int):
        raise InvalidParameter(
            f"budget: expected an integer number of nano-nats, got {type(nano).__name__}"
        )
    if not 0 <= nano <= MAX_NANO_NATS:
        raise InvalidParameter(f"budget: expected 0..10^15 nano-nats, got {_short(nano)}")
    return nano


def parse_epsilon(epsilon: str | int | Decimal | Fraction, field: str = "epsilon") -> int:
    """Read an epsilon in nats as nano-nats, exactly, rounded down.

    Privacy: rounding down never grants more than was written.

    Args:
        epsilon: > 0 and at most 10^6 nats. Text is a decimal ("0.5", "1e-3") or a fraction ("1/3").
            A float is refused, for what it holds is not what was written; its owner may pass
            `Decimal(repr(x))`.
        field: name of the value in errors; empty: the caller names it.

    Returns:
        The budget in nano-nats, at least 1.

    Raises:
        InvalidParameter: not a number, not positive, below one nano-nat, or above 10^6 nats.
    """
    number = _number(epsilon, field)
    # Compared before it is expanded: "1e999999999" must not become an integer of that many digits.
    if number <= 0:
        raise _refusal(field, "a positive number of nats", epsilon)
    if number > MAX_NANO_NATS // NANO_NATS_PER_NAT:
        raise _refusal(field, "at most 10^6 nats", epsilon)
    if number < Decimal("1e-9"):
        raise _refusal(field, "at least 10^-9 nats", epsilon)
    exact = Fraction(number) * NANO_NATS_PER_NAT
    return exact.numerator // exact.denominator


def format_nats(nano: int) -> str:
    """Show nano-nats as nats, exactly: 500,000,000 is "0.5" and 2 * 10^9 is "2"."""
    sign = "-" if nano < 0 else ""
    whole, rest = divmod(abs(nano), NANO_NATS_PER_NAT)
    decimals = f"{rest:09d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def parse_number(text: str) -> Decimal | Fraction:
    """Read a decimal ("0.5", "1e-3"), not expanded, or a fraction ("1/3"), exactly.

    Raises:
        ValueError, ArithmeticError: neither, or more than 64 characters.
    """
    if len(text) > _MAX_TEXT:
        raise ValueError
    return Fraction(text) if "/" in text else Decimal(text)


def _number(epsilon: object, field: str) -> int | Decimal | Fraction:
    if isinstance(epsilon, str):
        try:
            epsilon = parse_number(epsilon)
        except (ValueError, ArithmeticError):
            raise _refusal(field, 'nats as "0.5" or "1/2", up to 64 characters', epsilon) from None
    if isinstance(epsilon, Decimal) and not epsilon.is_finite():
        raise _refusal(field, "a finite number of nats", epsilon)
    if isinstance(epsilon, int | Decimal | Fraction) and not isinstance(epsilon, bool):
        return epsilon
    raise _refusal(field, "text, int, Decimal or Fraction", epsilon)


def _refusal(field: str, expected: str, epsilon: object) -> InvalidParameter:
    named = f"{field}: " if field else ""
    return InvalidParameter(f"{named}expected {expected}, got {value_text(epsilon)}")


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"a number of {number.bit_length()} bits"
