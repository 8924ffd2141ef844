"""The configuration that `askance aggregator init` writes: every declared key, with its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from textwrap import wrap

from askance_aggregator.declarations import (
    DeclaredKey,
    Key,
    KeyGroup,
    KeyRows,
    KeyTable,
    declared_keys,
)
from askance_aggregator.server.process.configuration import Configuration
from askance_aggregator.server.process.declared_file import PREFIX
from askance_client.addresses import Address

_MAX_PORT = (1 << 16) - 1
_WIDTH = 100  # of a line, in characters
_HEAD = f"""\
# An askance aggregator. Start it with: askance aggregator serve --config FILE (this file).
# Paths are relative to this file. A variable of the environment goes before a key:
# {PREFIX}LIMITS_STREAMS before streams of [limits].
"""


def configuration_text(listen: Address, metrics: Address, analyst: bytes) -> str:
    """A whole configuration for the files that lie beside it."""
    port = metrics.port and metrics.port + 1
    given = {
        "listen": str(listen),
        "store": "sqlite:///store.sqlite",
        "tls.certificate": "server.pem",
        "tls.key": "server.key",
        "tls.devices.listen": str(listen.at_port(port if port <= _MAX_PORT else listen.port - 2)),
        "tls.devices.authority": "devices-ca.pem",
        "tls.devices.authority_key": "devices-ca.key",
        "enrolment.key": "enrolment.key",
        "analysts.keys": [analyst.hex()],
        "metrics.listen": str(metrics),
    }
    return "\n".join([_HEAD, *_lines(Configuration, given, (), live=True), ""])


def _lines(
    make: Callable[..., object], given: Mapping[str, object], above: tuple[str, ...], *, live: bool
) -> Iterator[str]:
    """Yield the lines of a table: its keys, then the tables in it.

    Args:
      make: declares the keys.
      given: values in place of the defaults, by path.
      above: path of the table.
      live: whether the table itself stands in the file, and not in a comment.
    """
    keys = list(_flat(make))
    for place, one in enumerate(keys):
        if isinstance(one.note, Key):
            value = given.get(".".join((*above, one.name)))
            *comment, line = _key_lines(one, one.note, value, live)
            yield from ["", *comment][not place :] if comment else ()
            yield line
    for one in keys:
        if isinstance(one.note, KeyTable):
            path = (*above, one.name)
            name = ".".join(path)
            below = live and one.note.shown and not isinstance(one.note, KeyRows)
            if one.note.text:
                header = f"[[{name}]]" if isinstance(one.note, KeyRows) else f"[{name}]"
                yield from ("", *_comment(one.note.text), header if below else f"# {header}")
            yield from _lines(one.make, given, path, live=below)


def _flat(make: Callable[..., object]) -> Iterator[DeclaredKey]:
    for one in declared_keys(make):
        if isinstance(one.note, KeyGroup):
            yield from _flat(one.make)
        else:
            yield one


def _key_lines(one: DeclaredKey, key: Key, given: object, live: bool) -> Iterator[str]:
    value = given if given is not None else None if one.needed or key.example else one.default
    line = f"{one.name} = {key.example if value is None else _toml(value)}"
    if value is None or not live:
        line = f"# {line}"
    if len(line) + len(key.text) + len(" # ") <= _WIDTH and "\n" not in line:
        yield f"{line} # {key.text}"
    else:
        yield from _comment(f"{key.text[0].upper()}{key.text[1:].rstrip('.')}.")
        yield line


def _comment(text: str) -> Iterator[str]:
    for paragraph in text.split("\n"):
        yield from wrap(paragraph, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(int(value))
        case str():
            return json.dumps(value, ensure_ascii=False)
        case frozenset() | list():
            return "".join(
                ("[\n", *(f"  {_toml(one)},\n" for one in value), "]") if value else "[]"
            )
    raise TypeError(f"default: expected a value that TOML has, got {value!r}")
