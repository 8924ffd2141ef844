"""Nothing that decides privacy is a float: a walk through the syntax of the trusted base.

The walk covers every file of client/askance_client but the runtime on the network (`service`, whose
only numbers are times and sizes). Where floats appear as data on their way to the grid, that is
listed with the reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client" / "askance_client"
NOT_WALKED = ("service",)
FLOAT_TYPES = {
    "float16", "float32", "float64", "float128", "longdouble", "double", "half", "single",
}  # fmt: skip
FORBIDDEN_MODULES = {"random", "time", "datetime", "decimal", "cmath", "statistics", "secrets"}
WHOLE_MATH = {"comb", "gcd", "isqrt", "lcm", "prod", "perm", "factorial"}
# What makes floats of integers, in numpy or in the module operator.
FLOAT_FUNCTIONS = {
    "average", "divide", "exp", "exp2", "fdiv", "ldexp", "linspace", "log", "log2", "mean",
    "random", "sqrt", "true_divide", "truediv",
}  # fmt: skip
FLOAT_CODES = {"d", "e", "f", "f2", "f4", "f8", "g", "float"} | FLOAT_TYPES
# Without a dtype these make float64, or whatever the data are.
MAKERS = {"arange", "array", "asarray", "empty", "frombuffer", "fromiter", "full", "ones", "zeros"}
DTYPE_PLACES = {"arange": 4, "fromiter": 2, "frombuffer": 2, "full": 3}  # 2 for all others
# What may stand where, and why. Everything else is a finding.
ALLOWED: dict[str, tuple[str, ...]] = {
    # a number as a person wrote it, read exactly and kept as a ratio of integers
    "queries/exact.py": ("the type float", "the module decimal", "a power"),
    "accounting/nano_nats.py": ("the module decimal",),
    # how values are shown in messages
    "printable.py": ("the module decimal",),
    "toml_tables.py": ("the literal 0.8",),
    # the owner's page shows times in the machine's zone, and its login link is random
    "console/parts.py": ("the module datetime",),
    "console/command.py": ("the module time", "the module secrets"),
    "console/server.py": ("the module time",),  # for which a request may take
    # paths are joined by a slash
    "cli/home.py": ("a true division",),
}


def walked() -> list[Path]:
    files = sorted(CLIENT.rglob("*.py"))
    return [f for f in files if f.relative_to(CLIENT).parts[0] not in NOT_WALKED]


def floats_in(source: str) -> Iterator[str]:
    """Yield what makes, uses or imports a float, an unseeded clock or unseeded randomness."""
    for node in ast.walk(ast.parse(source)):
        yield from _arithmetic(node)
        yield from _names(node)
        match node:
            case ast.Import(names=names):
                yield from _imports(node.lineno, [(alias.name, "") for alias in names])
            case ast.ImportFrom(module=str(module), names=names):
                yield from _imports(node.lineno, [(module, alias.name) for alias in names])
            case _:
                pass


def _arithmetic(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=float() | complex() as value):
            yield f"the literal {value} at line {node.lineno}"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            yield f"a true division at line {node.lineno}"
        case ast.BinOp(op=ast.Pow()) | ast.AugAssign(op=ast.Pow()) if not _whole(node):
            yield f"a power that may be a float at line {node.lineno}"
        case ast.Call(func=ast.Name(id="round")):
            yield f"round() at line {node.lineno}"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=attr)):
            if attr in MAKERS and not _typed(node, attr):
                yield f"an array of any type at line {node.lineno}"
        case _:
            pass


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id="float" | "complex" as name):
            yield f"the type {name} at line {node.lineno}"
        case ast.Attribute(attr=attr) if attr in FLOAT_TYPES:
            yield f"the type {attr} at line {node.lineno}"
        case ast.Attribute(attr=attr) if attr in FLOAT_FUNCTIONS:
            yield f"{attr} at line {node.lineno}"
        case ast.Constant(value=str(text)) if text.lstrip("<>=|") in FLOAT_CODES:
            yield f"the text {text!r} at line {node.lineno}"
        case _:
            pass


def _whole(power: ast.BinOp | ast.AugAssign) -> bool:
    """Return whether the exponent is whole, and so the power of an integer is one."""
    exponent = power.right if isinstance(power, ast.BinOp) else power.value
    return isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)


def _typed(call: ast.Call, maker: str) -> bool:
    """Return whether an array is made with a dtype."""
    place = DTYPE_PLACES.get(maker, 2)
    return len(call.args) >= place or any(keyword.arg == "dtype" for keyword in call.keywords)


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
    allowed = ALLOWED.get(str(file.relative_to(CLIENT)), ())
    found = floats_in(file.read_text(encoding="utf-8"))
    assert [item for item in found if not item.startswith(allowed)] == []


def test_no_allowance_outlives_its_reason() -> None:
    for name, allowed in ALLOWED.items():
        found = list(floats_in((CLIENT / name).read_text(encoding="utf-8")))
        for start in allowed:
            assert any(item.startswith(start) for item in found), (name, start)


@pytest.mark.parametrize(
    "planted",
    [
        "x = 0.5",
        "x = 1j",
        "x = a / b",
        "x /= 2",
        "x = float(a)",
        "x = round(a)",
        "x = a.astype(float)",
        "x = a.astype('<f8')",
        "x = np.dtype('float32')",
        "x = np.zeros(3)",
        "x = np.full(3, a)",
        "x = np.arange(a, b)",
        "x = np.asarray(a)",
        "x = np.true_divide(a, b)",
        "x = a.mean()",
        "x = np.sqrt(a)",
        "x = operator.truediv(a, b)",
        "x = map(float, a)",
        "x = 2 ** -1",
        "x = a ** b",
        "x **= b",
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


@pytest.mark.parametrize(
    "fine",
    [
        "x = a // b",
        "from math import comb",
        "x = 1 << 64",
        "a >> 3",
        "x = 10**9",
        "np.zeros(3, np.int64)",
        "np.full(3, 0, np.uint8)",
        "np.asarray(a, dtype=np.int64)",
    ],
)
def test_the_walk_lets_integers_pass(fine: str) -> None:
    assert list(floats_in(fine)) == []
