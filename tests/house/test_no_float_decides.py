"""Nothing that decides privacy is a float: a walk through the syntax of the trusted base.

The walk covers every file of client/askance/client but the runtime on the network (`service`, whose
only numbers are times and sizes) and the owner's commands. Where floats appear as
data on their way to the grid, that is listed with the reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client" / "askance" / "client"
NOT_WALKED = ("service", "command")
FLOAT_TYPES = {
    "float16",
    "float32",
    "float64",
    "float128",
    "longdouble",
    "double",
    "half",
    "single",
}
FORBIDDEN_MODULES = {"random", "time", "datetime", "decimal", "cmath", "statistics", "secrets"}
WHOLE_MATH = {"comb", "gcd", "isqrt", "lcm", "prod", "perm", "factorial"}
# What may stand where, and why. Everything else is a finding.
ALLOWED = {
    # a column of floats on its way to the grid, by exact steps only: scaling by a power of two,
    # rounding to integers, clipping at a power of two
    "queries/columns.py": "the type float",
    # a number as a person wrote it, read exactly and kept as a ratio of integers
    "queries/exact.py": "the module decimal",
    "accounting/nano_nats.py": "the module decimal",
}


def walked() -> list[Path]:
    files = sorted(CLIENT.rglob("*.py"))
    return [f for f in files if f.relative_to(CLIENT).parts[0] not in NOT_WALKED]


def floats_in(source: str) -> Iterator[str]:
    """What in this source makes, uses or imports a float or an unseeded clock or die."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=float() | complex() as value):
                yield f"the literal {value} at line {node.lineno}"
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                yield f"a true division at line {node.lineno}"
            case ast.Call(func=ast.Name(id="float" | "complex" | "round" as name)):
                yield f"{name}() at line {node.lineno}"
            case ast.Attribute(attr=attr) if attr in FLOAT_TYPES:
                yield f"the type {attr} at line {node.lineno}"
            case ast.Import(names=names):
                yield from _imports(node.lineno, [(alias.name, "") for alias in names])
            case ast.ImportFrom(module=str(module), names=names):
                yield from _imports(node.lineno, [(module, alias.name) for alias in names])
            case _:
                pass


def _imports(line: int, names: list[tuple[str, str]]) -> Iterator[str]:
    for module, name in names:
        if module.split(".")[0] in FORBIDDEN_MODULES or module == "numpy.random":
            yield f"the module {module} at line {line}"
        if module == "math" and name not in WHOLE_MATH:
            yield f"math.{name or '*'} at line {line}"


def test_the_walk_finds_the_trusted_base() -> None:
    names = {str(file.relative_to(CLIENT)) for file in walked()}
    assert {"device/core.py", "randomizers/channel.py", "accounting/charges.py"} <= names
    assert len(names) > 40
    assert names >= ALLOWED.keys()


@pytest.mark.parametrize("file", walked(), ids=lambda file: str(file.relative_to(CLIENT)))
def test_no_float_decides(file: Path) -> None:
    allowed = ALLOWED.get(str(file.relative_to(CLIENT)))
    found = floats_in(file.read_text(encoding="utf-8"))
    assert [item for item in found if allowed is None or not item.startswith(allowed)] == []


def test_no_allowance_outlives_its_reason() -> None:
    for name, allowed in ALLOWED.items():
        found = floats_in((CLIENT / name).read_text(encoding="utf-8"))
        assert any(item.startswith(allowed) for item in found), name


@pytest.mark.parametrize(
    "planted",
    [
        "x = 0.5",
        "x = 1j",
        "x = a / b",
        "x /= 2",
        "x = float(a)",
        "x = round(a)",
        "x = numpy.float64(3)",
        "x = a.astype(np.float32)",
        "import random",
        "import time",
        "from math import exp",
        "import math",
        "from numpy.random import default_rng",
        "import datetime",
    ],
)
def test_the_walk_catches_what_is_planted(planted: str) -> None:
    assert list(floats_in(planted))


@pytest.mark.parametrize("fine", ["x = a // b", "from math import comb", "x = 1 << 64", "a >> 3"])
def test_the_walk_lets_integers_pass(fine: str) -> None:
    assert list(floats_in(fine)) == []
