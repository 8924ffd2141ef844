"""An aggregator's folder, made whole at once, and the configuration that it holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance_aggregator import declarations
from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.server.process.certificates import devices_authority, self_made
from askance_aggregator.server.process.configuration import Configuration, read_configuration
from askance_aggregator.server.process.declared_file import PREFIX
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.moved_store import MOVED_NOTE
from askance_aggregator.server.process.tokens import KEY_BYTES
from askance_aggregator.store import PostgresqlLocation, SqliteStore
from askance_client.addresses import Address
from askance_client.durable_files import sync, write_new
from askance_client.errors import InvalidParameter

CONFIGURATION = "aggregator.toml"
AUTHORITY = "ca.pem"
DEVICES_AUTHORITY = "devices-ca.pem"
ANALYST = "analyst"  # name of the first one
ANALYST_KEY = "analyst.pem"
ANALYST_PUBLIC = "analyst.pub"
COUNTS_PUBLIC = "counts.pub"
STORE = "store.sqlite"
_PRIVATE = 0o600
_MAX_PORT = (1 << 16) - 1

_WIDTH = 100  # of a line, in characters
_HEAD = f"""\
# An askance aggregator. Start it with: askance aggregator serve --config FILE (this file).
# Paths are relative to this file. A variable of the environment goes before a key:
# {PREFIX}LIMITS_STREAMS before streams of [limits].
"""


@dataclass(frozen=True, slots=True)
class AggregatorHome:
    """A folder that has just been made."""

    folder: Path  # holds `aggregator.toml` and what it names
    analyst: bytes  # public key of the first analyst

    @classmethod
    def create(
        cls, folder: Path, *, listen: Address, hosts: Sequence[str], now_s: int
    ) -> AggregatorHome:
        """Make a folder with everything that an aggregator needs, readable by its owner only.

        It is made beside and moved into place when it is whole. An empty folder that is there
        already is filled, its configuration last.

        Args:
          folder: absent or empty.
          listen: where it is to listen; the page of metrics is on loopback, a port further.
          hosts: names and addresses that its certificate is for, besides this machine's own.
          now_s: the time in Unix seconds; certificates begin then.

        Raises:
          NotOperable: something is there already (nothing is ever overwritten), or the disk says
            no. InvalidParameter: a host that no certificate can name.
        """
        if listen.host not in hosts and not listen.is_wildcard:
            hosts = [*hosts, listen.host]
        with _making(folder) as beside:
            analyst = _fill(beside, listen, hosts, now_s)
        return cls(folder, analyst)

    @property
    def configuration(self) -> Path:
        """The configuration's file."""
        return self.folder / CONFIGURATION

    @property
    def authority(self) -> Path:
        """Certificate authority's file, which devices and analysts pin."""
        return self.folder / AUTHORITY

    @property
    def analyst_key(self) -> Path:
        """The first analyst's private key."""
        return self.folder / ANALYST_KEY


def create_replica(folder: Path, first: Path, *, name: str, listen: Address) -> Path:
    """Make the folder of another replica of an aggregator: its files, under another name.

    It has copies of the files in the folder that the first one's configuration names, of `ca.pem`,
    of `analyst.pub` and `counts.pub`, and of the note of a move. The configuration differs in
    `replica` and in addresses: on another host the devices' port and that of metrics are the same,
    on the same host they follow `listen`.

    Args:
      folder: absent or empty.
      first: the folder of the aggregator.
      name: of the replica, other than the first one's.
      listen: where it is to listen, other than the first one.

    Returns:
      The configuration's file.
    """
    before = read_configuration(first / CONFIGURATION, environment={})
    if not isinstance(before.store, PostgresqlLocation):
        raise InvalidParameter(
            f"--replica: expected an aggregator whose store is in PostgreSQL, got {before.store}"
            " (askance aggregator migrate --to moves one)"
        )
    for what, old, new in (("name", before.replica, name), ("listen", before.listen, listen)):
        if old == new and new != listen.at_port(0):
            raise InvalidParameter(f"--{what}: expected another one than the first's, got {new}")
    here = listen.host == before.listen.host
    addresses = {"": str(listen)}
    if before.tls is not None:
        port = listen.port and listen.port + 2 if here else before.tls.devices.listen.port
        addresses["tls.devices"] = str(listen.at_port(port))
    if before.metrics is not None and here:
        addresses["metrics"] = str(before.metrics.at_port(listen.port and listen.port + 1))
    text = (first / CONFIGURATION).read_text(encoding="utf-8")
    named = {AUTHORITY, ANALYST_PUBLIC, COUNTS_PUBLIC, MOVED_NOTE, *_texts(tomllib.loads(text))}
    files = [file for file in sorted(named) if _is_file_beside(first, file)]
    with _making(folder) as beside:
        for file in files:
            (beside / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(first / file, beside / file)  # with its mode
        content = "\n".join([*_replica_lines(text.splitlines(), name, addresses), ""])
        write_new(beside / CONFIGURATION, content.encode())
        made = read_configuration(beside / CONFIGURATION, environment={})
        if (made.replica, made.listen) != (name, listen):
            raise InvalidParameter(
                f"{first / CONFIGURATION}: expected `listen = ` at the begin of a line above the"
                f" first table, to be {listen}, got a configuration of {made.listen}"
            )
    return folder / CONFIGURATION


def _is_file_beside(first: Path, text: str) -> bool:
    """Return whether a text of the configuration is a file's relative path; refuse one outside."""
    if Path(text).is_absolute() or not (first / text).is_file():
        return False
    if ".." in Path(text).parts:
        raise InvalidParameter(
            f"{first / CONFIGURATION}: expected files in its folder, or by absolute paths,"
            f" got {text}"
        )
    return True


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in what TOML holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _replica_lines(lines: Sequence[str], name: str, addresses: Mapping[str, str]) -> Iterator[str]:
    """Yield a configuration's lines with a replica's name, and its addresses by their tables."""
    table = ""
    named = next((line for line in lines if re.match(r"(# )?replica = ", line)), None)
    if named is None:
        yield f"replica = {json.dumps(name, ensure_ascii=False)}"
    for line in lines:
        if header := re.match(r"\[([\w.]+)\]", line):
            table = header[1]
        if line is named:
            yield f"replica = {json.dumps(name, ensure_ascii=False)}"
        elif table in addresses and line.startswith("listen = "):
            yield f'listen = "{addresses[table]}"'
        else:
            yield line


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """Give an empty folder to be filled, and move it into place when it is whole."""
    there = _is_empty_folder(folder)
    try:
        if not there:
            folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".askance-", dir=folder if there else folder.parent))
    except OSError as error:
        raise NotOperable(f"{folder}: cannot be made: {error.strerror}") from None
    try:
        yield beside
        put = _move_into if there else os.rename
        put(beside, folder)
        sync(folder if there else folder.parent)
    except OSError as error:
        raise NotOperable(f"{folder}: cannot be made: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _is_empty_folder(folder: Path) -> bool:
    """Return whether the folder exists and is empty; refuse anything else at that path."""
    try:
        if not folder.is_dir():
            if os.path.lexists(folder):
                raise NotOperable(f"{folder}: expected no file there yet, found one")
            return False
        found = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise NotOperable(f"{folder}: cannot be made: {error.strerror}") from None
    if found:
        raise NotOperable(f"{folder}: expected an empty folder, found {found[0]} in it")
    return True


def _fill(folder: Path, listen: Address, hosts: Sequence[str], now_s: int) -> bytes:
    """Make every file; return the analyst's public key."""
    authority, server = self_made(hosts, now_s)
    analyst = Ed25519PrivateKey.generate()
    public = analyst.public_key().public_bytes_raw()
    SqliteStore.create(folder / STORE).close()
    write_new(folder / AUTHORITY, authority.certificate)
    write_new(folder / "ca.key", authority.key, mode=_PRIVATE)
    of_devices = devices_authority(now_s)
    write_new(folder / DEVICES_AUTHORITY, of_devices.certificate)
    write_new(folder / "devices-ca.key", of_devices.key, mode=_PRIVATE)
    write_new(folder / "server.pem", server.certificate)
    write_new(folder / "server.key", server.key, mode=_PRIVATE)
    enrolment_key = os.urandom(KEY_BYTES)
    write_new(folder / "enrolment.key", enrolment_key, mode=_PRIVATE)
    counts_key = CountsSigner(enrolment_key).public_key  # for readers of exports
    write_new(folder / COUNTS_PUBLIC, counts_key.hex().encode() + b"\n")
    pem = analyst.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(folder / ANALYST_KEY, pem, mode=_PRIVATE)
    write_new(folder / ANALYST_PUBLIC, public.hex().encode() + b"\n")  # for devices to pin
    metrics = Address("127.0.0.1", _next_port(listen.port))
    write_new(folder / CONFIGURATION, configuration_text(listen, metrics, public).encode())
    return public


def _next_port(port: int) -> int:
    """A port beside another; a free one where that is free too."""
    return 0 if port == 0 else port + 1 if port < _MAX_PORT else port - 1


def _move_into(beside: Path, folder: Path) -> None:
    """Move every file into an empty folder, the configuration last, or none of them."""
    os.chmod(folder, 0o700)
    names = sorted(os.listdir(beside), key=lambda name: name == CONFIGURATION)
    moved: list[Path] = []
    try:
        for name in names:
            os.link(beside / name, folder / name)  # unlike a rename it overwrites nothing
            moved.append(folder / name)
    except OSError:
        for path in moved:
            path.unlink(missing_ok=True)
        raise


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
        "analysts.keys": {ANALYST: analyst.hex()},
        "metrics.listen": str(metrics),
    }
    return "\n".join([_HEAD, *_lines(Configuration, given, (), live=True), ""])


def _lines(
    make: Callable[..., object], given: Mapping[str, object], above: tuple[str, ...], *, live: bool
) -> Iterator[str]:
    """Yield the lines of a table: its keys, then the tables in it."""
    # make: declares the keys.
    # given: values in place of the defaults, by path.
    # above: path of the table.
    # live: whether the table itself stands in the file, and not in a comment.
    keys = list(_flat(make))
    for place, one in enumerate(keys):
        if isinstance(one.note, declarations.Key):
            value = given.get(".".join((*above, one.name)))
            *comment, line = _key_lines(one, one.note, value, live)
            yield from ["", *comment][not place :] if comment else ()
            yield line
    for one in keys:
        if isinstance(one.note, declarations.KeyTable):
            path = (*above, one.name)
            name = ".".join(path)
            below = live and one.note.shown and not isinstance(one.note, declarations.KeyRows)
            if one.note.text:
                header = (
                    f"[[{name}]]" if isinstance(one.note, declarations.KeyRows) else f"[{name}]"
                )
                yield from ("", *_comment(one.note.text), header if below else f"# {header}")
            yield from _lines(one.make, given, path, live=below)


def _flat(make: Callable[..., object]) -> Iterator[declarations.DeclaredKey]:
    for one in declarations.declared_keys(make):
        if isinstance(one.note, declarations.KeyGroup):
            yield from _flat(one.make)
        else:
            yield one


def _key_lines(
    one: declarations.DeclaredKey, key: declarations.Key, given: object, live: bool
) -> Iterator[str]:
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
        case dict():
            return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in value.items())} }}"
        case frozenset() | list():
            return "".join(
                ("[\n", *(f"  {_toml(one)},\n" for one in value), "]") if value else "[]"
            )
    raise TypeError(f"default: expected a value that TOML has, got {value!r}")
