"""`askance aggregator provision`: all that a site needs to start its devices."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator import common
from askance.cli.arguments import count
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted
from askance_client.durable_files import sync, write_new
from askance_client.printable import printable

if TYPE_CHECKING:
    from askance_aggregator.server.process.configuration import Configuration

_MAKES = (
    "Makes a folder, or with --out NAME.tar.gz an archive, that a site unpacks and starts: the"
    " configuration of its device or gateway, the authority, an enrolment token, systemd's unit and"
    " instructions. The site's own secret is made there, and is known to no other party."
)
_ARCHIVES = (".tar.gz", ".tgz")
_UNIT = "askance-device@.service"
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_README = "site.md"
_OWN = ("device.toml", "ca.pem", "token", "README.md", _UNIT)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    from askance_client.cli.device import add_settings

    what = "make all that a site needs to start its devices"
    provision = common.add_command(
        commands, "provision", _provision, what, _MAKES, common.add_configured_store
    )
    provision.add_argument("site", metavar="SITE", help="the site's name, as in file names")
    provision.add_argument(
        "--devices", type=count, required=True, metavar="N", help="number of the site's devices"
    )
    common.add_token_terms(provision)
    provision.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="a new folder, or an archive NAME.tar.gz; default: the folder SITE",
    )
    add_settings(provision)


def _provision(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_client.service.clock import utc_text

    site, out = arguments.site, arguments.out or Path(arguments.site)
    if not _SITE.fullmatch(site):
        expected = "letters, digits, '.', '_' and '-', at most 63 and a letter or digit first"
        raise Failure(2, "usage", f"SITE: expected {expected}, got {site!r}")
    if out.exists():
        raise Failure(
            2, "bad-input", f"{out}: expected a new folder or archive, got one that exists"
        )
    configuration = common.configuration_of(arguments)
    token, tags = common.issued_token(arguments, configuration), (f"site={site}", *arguments.tag)
    files = _settings(arguments, configuration)
    files["token"] = f"{token.text}\n".encode()
    device = tomllib.loads(files["device.toml"].decode())
    records = device["records"]
    place = next(key for key in ("data", "command", "url", "environment") if key in records)
    texts = resources.files("askance.cli.aggregator")
    readme = (
        texts.joinpath(_README)
        .read_text(encoding="utf-8")
        .format(
            site=site,
            aggregator=device["aggregator"],
            devices=counted(token.devices, "device"),
            ends=utc_text(token.ends_unix_s),
            schema=records["schema"],
            records=records[place] if place != "command" else shlex.join(records[place]),
            unit=_UNIT,
        )
    )
    files |= {"README.md": readme.encode(), _UNIT: texts.joinpath(_UNIT).read_bytes()}
    with (
        closing(configuration.store.open_beside()) as store,
        common.recorded(store, "provision", f"site {site}: {counted(token.devices, 'device')}"),
    ):
        keep = partial(
            store.register.keep_token, token.token_id, token.devices, token.ends_unix_s, tags
        )
        write_site(out, site, files, system_now_s(), keep)
    result = {"site": site, "out": str(out), "files": sorted(files), "devices": token.devices}
    result["tags"] = sorted(set(tags))
    return print_answer(
        arguments,
        {**result, "id": token.token_id.hex(), "ends_unix_s": token.ends_unix_s},
        printable(f"site {site} in {out}: {', '.join(sorted(files))}"),
        f"its token enrolls {counted(token.devices, 'device')}, with the tag site={site}, until"
        f" {utc_text(token.ends_unix_s)}",
    )


def _settings(arguments: argparse.Namespace, configuration: Configuration) -> dict[str, bytes]:
    """Return the files of the site's settings by name, after a check that a device takes them."""
    from dataclasses import replace

    from askance_client.cli.configuration import configuration_in
    from askance_client.cli.making import given_by
    from askance_client.cli.template import device_toml
    from askance_client.records import schema_from_toml
    from askance_client.toml_tables import TomlTable

    if arguments.schema is None:
        raise Failure(2, "usage", "--schema: expected the schema of a record, got none")
    if arguments.schema.name in _OWN:
        expected = f"a file named otherwise than the site's own ({', '.join(_OWN)})"
        raise Failure(2, "usage", f"--schema: expected {expected}, got {arguments.schema.name}")
    schema_from_toml(arguments.schema)
    files = {arguments.schema.name: arguments.schema.read_bytes()}
    given = given_by(arguments, lambda path: path)
    address = given.aggregator or configuration.listen
    if address.is_wildcard or not address.port:
        raise Failure(2, "usage", f"--aggregator: expected how devices reach {address}, got none")
    authority = None
    if configuration.tls is not None:
        source = given.ca or arguments.config.parent / "ca.pem"
        authority = Path("ca.pem")
        try:
            files[authority.name] = source.read_bytes()
        except OSError as error:
            text = f"--ca: {source} cannot be read: {error.strerror}"
            raise Failure(2, "bad-input", text) from None
    text = device_toml(
        replace(
            given,
            aggregator=address,
            ca=authority,
            token_file=Path("token"),
            analyst=given.analyst or tuple(sorted(configuration.analysts)),
            schema=Path(arguments.schema.name),
        )
    )
    configuration_in(TomlTable(tomllib.loads(text), "device.toml"), Path("device.toml"))
    return files | {"device.toml": text.encode()}


def write_private(path: Path, data: bytes) -> None:
    """Make a file for its owner only, durably."""
    write_new(path, data, mode=0o600)


def write_site(
    out: Path,
    site: str,
    files: Mapping[str, bytes],
    now_s: int,
    keep_token: Callable[[], None],
    write: Callable[[Path, bytes], None] = write_private,
) -> None:
    """Write the files, each of mode 0600, into a new folder or archive: whole, or not at all.

    They are written beside and moved into place when they are on the disk. The token is valid from
    the last step on: what a process that was killed has left enrolls no device.

    Args:
      out: the folder, or the archive by its name's end.
      site: name of the folder in an archive.
      files: by name.
      now_s: time of an archive's entries, in Unix seconds.
      keep_token: makes the token valid; if it raises, what was written is removed.
      write: makes a file durably.

    Raises:
      Failure: the disk says no, or something came to be at `out` meanwhile; nothing is left.
    """
    made = [folder for folder in out.parents if not folder.exists()]
    try:
        _write_whole(out, site, files, now_s, write)
        try:
            sync(out.parent)
            keep_token()
        except BaseException:
            if out.is_dir():
                shutil.rmtree(out)
            else:
                out.unlink()
            raise
    except BaseException as error:
        with suppress(OSError):  # a folder that has got another file stays
            for folder in made:
                folder.rmdir()
        if isinstance(error, OSError):
            text = f"{out}: cannot be made: {error.strerror}"
            raise Failure(2, "bad-input", text) from None
        raise


def _write_whole(
    out: Path,
    site: str,
    files: Mapping[str, bytes],
    now_s: int,
    write: Callable[[Path, bytes], None],
) -> None:
    """Write a site's folder or archive; raise OSError, and leave nothing at `out`."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".askance-", dir=out.parent) as folder:
        beside = Path(folder, out.name)
        if out.name.endswith(_ARCHIVES):
            write(beside, _archive(site, files, now_s))
            _put_new(beside, out)
        else:
            beside.mkdir(mode=0o700)
            for name, data in files.items():
                write(beside / name, data)
            beside.rename(out)


def _put_new(file: Path, to: Path) -> None:
    """Move a file to a path where none is; unlike a renaming alone it overwrites nothing."""
    try:
        os.link(file, to)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        to.touch(mode=0o600, exist_ok=False)
        file.rename(to)


def _archive(site: str, files: Mapping[str, bytes], now_s: int) -> bytes:
    """Return a compressed archive of a folder of the site's name."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, data in (("", b""), *sorted(files.items())):
            entry = tarfile.TarInfo(f"{site}/{name}".rstrip("/"))
            entry.type, entry.mode = (tarfile.REGTYPE, 0o600) if name else (tarfile.DIRTYPE, 0o700)
            entry.size, entry.mtime = len(data), now_s
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()
