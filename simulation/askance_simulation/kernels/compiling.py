"""Compilation of loops by numba, kept on disk, and arithmetic that all loops share.

A loop over users without branches or calls is computed for several users at once, by the
processor's wide registers. So a draw is divided into such loops, each a function of its own over
a few hundred users (`blocks`).

Numba keeps what it compiled on disk, and does not see that a module has changed which a loop calls.
So a loop's name there holds the digest of all modules of this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

_DOWN = np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)


def compiled(function: F) -> F:
    """Compile a function at its first call per types, without the interpreter's lock."""
    options = {"nogil": True, "error_model": "numpy"}
    function.__qualname__ += f"-{_digest()}"  # a part of the file's name
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder that it may keep anything in
        made = numba.njit(**options)(function)
    return cast(F, made)


def inlined(function: F) -> F:
    """Mark a function as a part of the loops that call it."""
    # A call leaves a test for an exception in the loop, which then handles one user at a time.
    return cast(F, numba.njit(inline="always", error_model="numpy")(function))


@cache
def _digest() -> str:
    """Digest of the sources that a loop may be compiled from."""
    found = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def product_high(typing_context: Any, one: Any, other: Any) -> Any:
    """Compute floor(one * other / 2^64) of two uint64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.IntType(128), ir.IntType(64)
        left, right = (builder.zext(argument, wide) for argument in arguments)
        high = builder.lshr(builder.mul(left, right), ir.Constant(wide, 64))
        return builder.trunc(high, narrow)

    return numba.uint64(numba.uint64, numba.uint64), build


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def narrow_quotient(typing_context: Any, number: Any, factor: Any, shift: Any) -> Any:
    """Compute floor(number * factor / 2^(16 + shift)) of uint16, 32 at once in wide registers."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.IntType(32), ir.IntType(16)
        left, right = (builder.zext(argument, wide) for argument in arguments[:2])
        high = builder.lshr(builder.mul(left, right), ir.Constant(wide, 16))
        return builder.lshr(builder.trunc(high, narrow), arguments[2])

    return numba.uint16(numba.uint16, numba.uint16, numba.uint16), build


@inlined
def product(one: Any, other: Any) -> Any:
    """Compute the product of two numbers below 2^32, as a processor does of several at once."""
    return (one & _HALF) * (other & _HALF)


@inlined
def scaled(coin: Any, limit: Any) -> Any:
    """Compute floor(coin * limit / 2^64) for a limit below 2^32."""
    # With coin = 2^32 h + l, it is floor((h limit + floor(l limit / 2^32)) / 2^32), in which
    # nothing overflows.
    return (product(coin >> _DOWN, limit) + (product(coin, limit) >> _DOWN)) >> _DOWN
