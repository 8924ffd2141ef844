"""TOML as Node's command reads it, beside Python's `tomllib`."""

from __future__ import annotations

import json
import subprocess
import tomllib
from random import Random
from typing import Any

import pytest

from tests.devices.scripted import build, missing

_CANNOT = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CANNOT is not None, reason=_CANNOT or ""),
]

TEXTS = 50_000
KEYS = ("a", "b", "c", "a.b", "a.c", "b.c", "a.b.c", '"a"', "'b'")
NOT_OF_SCHEMAS = ("0x1", "nan", "'''z'''", "1979-05-27", "[[a]]")
"""Kinds of values and lines that Node does not read."""
VALUES = (
    *("1", "-0", "+3", "1_0", "01", "1.5", "1e3", "1.", "true", "false", "tru"),
    *("'x'", '"y"', '"\\u00e4"', '"\\x"', "'x", "[]", "[1,]", "[1,,2]", "[\r1]"),
    *("{}", "{a=1}", "{a.b=1}", "{a=1,}", "{a={b=1}}", "[{a=1},[2]]"),
    *NOT_OF_SCHEMAS[:-1],
)
LINES = ("", "# c", " ", "\t", "[", "=", "a", NOT_OF_SCHEMAS[-1])
PROGRAM = """
import { readFileSync } from "node:fs";
const { parseToml } = await import(process.argv[1]);
const plain = (value) =>
  value instanceof Map
    ? Object.fromEntries([...value].map(([key, inner]) => [key, plain(inner)]))
    : Array.isArray(value) ? value.map(plain) : typeof value === "boolean" ? value : String(value);
const read = (text) => {
  try {
    return plain(parseToml("x", text));
  } catch (error) {
    return error.name === "InvalidParameter" ? null : String(error);
  }
};
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(read)));
"""
"""Reads each text of a list; one that is refused is null."""


def line(random: Random) -> str:
    """Return a line, valid or not."""
    kind = random.random()
    if kind < 0.3:
        return f"[{random.choice(KEYS)}]" + random.choice(["", "", " # c", " x"])
    if kind < 0.9:
        end = random.choice(["", "", "", " # c", "\x01", "# \x02", "\r"])
        return f"{random.choice(KEYS)} = {random.choice(VALUES)}{end}"
    return random.choice(LINES)


def as_texts(value: Any) -> Any:
    """Return a value with numbers as texts."""
    if isinstance(value, dict):
        return {key: as_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_texts(inner) for inner in value]
    return value if isinstance(value, bool) else str(value)


def python_reads(text: str) -> Any:
    """Read a text by `tomllib`; None if it refuses it."""
    try:
        return as_texts(tomllib.loads(text, parse_float=str))
    except tomllib.TOMLDecodeError:
        return None


def test_what_node_reads_python_reads_too_and_alike() -> None:
    random = Random(1)
    texts = ["\n".join(line(random) for _ in range(random.randint(1, 5))) for _ in range(TEXTS)]
    words = ["node", "--input-type=module", "-e", PROGRAM]
    done = subprocess.run(
        [*words, str(build() / "src" / "node" / "toml.js")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    alike = 0
    for text, ours in zip(texts, json.loads(done.stdout), strict=True):
        theirs = python_reads(text)
        if ours is None and any(kind in text for kind in NOT_OF_SCHEMAS):
            continue
        assert ours == theirs, text
        alike += ours is not None
    assert alike > TEXTS / 10
