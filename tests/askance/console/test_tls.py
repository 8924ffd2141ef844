"""A console that other machines may reach: the command serves it over TLS, by its name, alone."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from askance.console.server import ConsoleServer, ConsoleSettings
from askance_aggregator.analyst import create_key
from askance_aggregator.server.process.certificates import self_made
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter

NAME = "console.example.org"
_PATIENCE_S = 20.0
_HOST = "127.0.0.2"  # of this machine, and not the address that has a name


@dataclass(frozen=True, slots=True)
class SecureConsole:
    """A console's port, its login link, and the authority of its certificate."""

    port: int
    link: str
    authority: Path

    def secure(self, name: str = NAME) -> ssl.SSLSocket:
        """Connect by TLS, checking the certificate for a name."""
        context = ssl.create_default_context(cafile=self.authority)
        made = socket.create_connection((_HOST, self.port), _PATIENCE_S)
        return context.wrap_socket(made, server_hostname=name)

    def get(self, path: str, headers: Mapping[str, str] = {}, host: str = "") -> HTTPResponse:
        """Request a path over TLS."""
        return self.request("GET", path, "", headers, host)

    def request(
        self, method: str, path: str, body: str, headers: Mapping[str, str], host: str = ""
    ) -> HTTPResponse:
        connection = HTTPConnection(_HOST, self.port)
        connection.sock = self.secure()
        sent = {"Host": host or f"{NAME}:{self.port}", "Accept": "text/html", **headers}
        connection.request(method, path, body or None, sent)
        return connection.getresponse()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureConsole]:
    folder = tmp_path_factory.mktemp("tls")
    create_key(folder / "ops.pem")
    authority, server = self_made([NAME], int(time.time()))
    (folder / "ca.pem").write_bytes(authority.certificate)
    (folder / "console.pem").write_bytes(server.certificate)
    (folder / "console.key").write_bytes(server.key)
    words = ["--aggregator", "127.0.0.1:1", "--key", "ops.pem", "--listen", f"{_HOST}:0"]
    tls = ["--name", NAME, "--certificate", "console.pem", "--certificate-key", "console.key"]
    with subprocess.Popen(
        [sys.executable, "-m", "askance", "console", "--json", *words, *tls],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        assert printed["login"].startswith(f"{printed['listening']}/login?token=")
        assert printed["listening"].startswith(f"https://{NAME}:")
        port = int(printed["listening"].rpartition(":")[2])
        yield SecureConsole(port, printed["login"], folder / "ca.pem")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_a_browser_that_calls_by_the_name_gets_a_cookie_for_tls_alone(
    console: SecureConsole,
) -> None:
    path = console.link.removeprefix(f"https://{NAME}:{console.port}")
    for host in ("evil.example", f"evil.example:{console.port}", NAME, f"{NAME}:1"):
        assert console.get(path, host=host).status == 421  # the link is not used up
    begun = console.get(path)
    assert begun.status == 200
    name, *properties = begun.headers["set-cookie"].split("; ")
    assert name.startswith(f"__Host-askance_{console.port}=")
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(properties)
    assert "Domain" not in begun.headers["set-cookie"]
    assert "strict-transport-security" not in begun.headers  # it would bind all ports of the host
    assert "default-src 'none'" in begun.headers["content-security-policy"]
    page = console.get("/", {"Cookie": name})
    text = page.read().decode()
    assert (page.status, "The aggregator cannot be reached" in text) == (502, True)
    assert console.get("/").status == 303  # without the cookie

    token = re.search('name="csrf" value="([0-9a-f]+)"', text)
    assert token is not None
    form = {"Cookie": name, "Content-Type": "application/x-www-form-urlencoded"}
    for origin, status in (
        (f"http://{NAME}:{console.port}", 403),  # a page that did not come over TLS
        ("https://evil.example", 403),
        (f"https://{NAME}:{console.port}", 303),
    ):
        sent = {**form, "Origin": origin}
        answer = console.request("POST", "/logout", f"csrf={token[1]}", sent)
        assert answer.status == status, origin
    assert console.get("/", {"Cookie": name}).status == 303


def test_plain_http_and_other_names_get_nothing(console: SecureConsole) -> None:
    head = f"GET /login HTTP/1.1\r\nHost: {NAME}:{console.port}\r\n\r\n"
    with socket.create_connection((_HOST, console.port), _PATIENCE_S) as plain:
        plain.sendall(head.encode())
        assert b"HTTP" not in plain.makefile("rb").read()
    with pytest.raises(ssl.SSLCertVerificationError):
        console.secure("other.example.org")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", console.port), _PATIENCE_S)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    _, server = self_made([NAME], int(time.time()))
    _, other = self_made([NAME], int(time.time()))
    chain = tmp_path / "console.pem"
    chain.write_bytes(server.certificate)
    (tmp_path / "other.key").write_bytes(other.key)
    (tmp_path / "empty.key").write_bytes(b"")
    listen = Address(_HOST, 0)
    for name, told in (("missing", "No such file"), ("empty", "not PEM"), ("other", "MISMATCH")):
        settings = ConsoleSettings(listen, chain, tmp_path / f"{name}.key", (NAME,))
        with pytest.raises(InvalidParameter, match=f"--certificate: expected .*{told}"):
            ConsoleServer(settings)


def test_handshakes_that_are_never_whole_hold_up_no_other(console: SecureConsole) -> None:
    """Once, they counted for nothing: each was held for a minute, until no descriptor was left."""
    with ExitStack() as held:
        half = []
        for begun in (b"", b"\x16\x03\x01\x02\x00") * 150:  # the header of a ClientHello
            made = socket.create_connection((_HOST, console.port), _PATIENCE_S)
            half.append(held.enter_context(made))
            made.sendall(begun)
        assert console.get("/").status == 303
        assert half[0].recv(1) == b""
        half[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            half[-1].recv(1)
