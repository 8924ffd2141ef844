"""Unit of every budget: an integer number of nano-nats, parsed from and formatted as nats."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

NANO_NATS_PER_NAT = 10**9
MAX_NANO_NATS = 10**6 * NANO_NATS_PER_NAT

_MAX_TEXT = 64


def check_nano_nats(nano: int) -> int:
    """Give `nano` back if it is a budget: an int in 0..MAX_NANO_NATS.

    Raises:
        InvalidParameter: it is not.
    """
    if isinstance(nano, bool) or not isinstance(nano, int):
        raise InvalidParameter(
            f"a budget is an integer number of nano-nats, found {type(nano).__name__}"
        )
    if not 0 <= nano <= MAX_NANO_NATS:
        raise InvalidParameter(f"a budget lies in 0..10^15 nano-nats, found {_short(nano)}")
    return nano


def parse_epsilon(epsilon: str | int | Decimal | Fraction) -> int:
    """Read an epsilon in nats as nano-nats, exactly, rounded down.

    Privacy: rounding down never grants more than was written.

    Args:
        epsilon: > 0 and at most 10^6 nats. Text is a decimal ("0.5", "1e-3"). A float is refused,
            for what it holds is not what was written; its owner may pass `Decimal(repr(x))`.

    Returns:
        The budget in nano-nats, at least 1.

    Raises:
        InvalidParameter: not a number, not positive, below one nano-nat, or above 10^6 nats.
    """
    number = _number(epsilon)
    # Compared before it is expanded: "1e999999999" must not become an integer of that many digits.
    if number <= 0:
        raise InvalidParameter(f"epsilon must be positive, got {value_text(epsilon)}")
    if number > MAX_NANO_NATS // NANO_NATS_PER_NAT:
        raise InvalidParameter(f"epsilon must be at most 10^6 nats, got {value_text(epsilon)}")
    if number < Decimal("1e-9"):
        raise InvalidParameter(f"epsilon must be at least 10^-9 nats, got {value_text(epsilon)}")
    exact = Fraction(number) * NANO_NATS_PER_NAT
    return exact.numerator // exact.denominator


def format_nats(nano: int) -> str:
    """Show nano-nats as nats, exactly: 500,000,000 is "0.5" and 2 * 10^9 is "2"."""
    sign = "-" if nano < 0 else ""
    whole, rest = divmod(abs(nano), NANO_NATS_PER_NAT)
    decimals = f"{rest:09d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def _number(epsilon: object) -> int | Decimal | Fraction:
    if isinstance(epsilon, str):
        if len(epsilon) > _MAX_TEXT:
            raise InvalidParameter(
                f"epsilon must be a decimal of at most {_MAX_TEXT} characters,"
                f" got {value_text(epsilon)}"
            )
        try:
            epsilon = Decimal(epsilon)
        except InvalidOperation:
            raise InvalidParameter(
                f"epsilon must be a decimal number of nats, got {value_text(epsilon)}"
            ) from None
    if isinstance(epsilon, Decimal):
        if not epsilon.is_finite():
            raise InvalidParameter(f"epsilon must be finite, got {epsilon}")
        return epsilon
    if isinstance(epsilon, int | Fraction) and not isinstance(epsilon, bool):
        return epsilon
    raise InvalidParameter(
        f"epsilon must be text, int, Decimal or Fraction, got {value_text(epsilon)}"
    )


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"a number of {number.bit_length()} bits"
