"""Sources of an issuer's public keys: a file, or an address that is fetched with a bound."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path
from typing import IO, Any, Protocol

from askance_aggregator.urls import URL_FORM, check_url
from askance_client.toml_tables import a_text

MAX_SET_BYTES = 64 * 1024  # a set has a few keys of less than 2 KiB
_FETCH_S = 5.0


class KeySource(Protocol):
    """Source of an issuer's key set."""

    def read(self) -> bytes:
        """Return the set as JSON, at most `MAX_SET_BYTES` + 1 bytes.

        Raises:
          OSError: it cannot be read now.
        """
        ...


class KeyFile:
    """A key set in a file, which the operator replaces."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(MAX_SET_BYTES + 1)


class KeyAddress:
    """A key set at a URL (see `fetch`)."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> bytes:
        return fetch(self._url)


def fetch(request: str | urllib.request.Request) -> bytes:
    """Return an issuer's answer, at most `MAX_SET_BYTES` + 1 bytes; follow no redirection.

    Raises:
      OSError: it cannot be had now, or is an error.
    """
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _NoRedirection
    )
    with opener.open(request, timeout=_FETCH_S) as reply:
        content: bytes = reply.read(MAX_SET_BYTES + 1)
    return content


def key_source(text: str, folder: Path) -> KeySource:
    """Return the source that a configuration names.

    Args:
      text: a URL (see `check_url`), or a file.
      folder: what a relative file is relative to.

    Raises:
      InvalidParameter: another URL.
    """
    if "://" not in text:
        return KeyFile(folder / text)
    return KeyAddress(check_url(text, f"a file, {URL_FORM}"))


def source_text(value: object, folder: Path) -> str:
    """Return the text of a source in a configuration, the path of a file whole."""
    source = key_source(a_text(value), folder)
    return str(source.path) if isinstance(source, KeyFile) else a_text(value)


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Refuse every redirection: it could lead from https to another scheme or machine."""

    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None
