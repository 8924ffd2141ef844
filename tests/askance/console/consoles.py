"""A console that is served to a caller of a role, and a browser's requests to it."""

from __future__ import annotations

import http.client
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from askance.console.application import application
from askance.console.link import AggregatorLink
from askance.console.server import ConsoleServer, ConsoleSettings
from askance.console.shared import Console
from askance_aggregator.analyst import connect
from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from askance_client.addresses import Address
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, served

_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and text of an answer."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(slots=True)
class Visitor:
    """A browser of one console: it keeps its cookie, and the token of the last page's forms."""

    address: Address
    host: str = ""
    cookie: str = ""
    csrf: str = ""
    links: list[str] = field(default_factory=list)

    def get(self, path: str, **headers: str) -> Answer:
        """Request a path."""
        return self.request("GET", path, b"", {"Accept": "text/html", **headers})

    def post(
        self, path: str, fields: Sequence[tuple[str, str]] = (), csrf: str | None = None
    ) -> Answer:
        """Send a form, with the token of the last page unless another is given."""
        token = self.csrf if csrf is None else csrf
        body = urlencode([("csrf", token), *fields]).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        return self.request("POST", path, body, kind)

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a request; keep its cookie and its forms' token."""
        connection = http.client.HTTPConnection(
            self.address.host, self.address.port, timeout=_PATIENCE_S
        )
        sent = {"Host": self.host or str(self.address), "Cookie": self.cookie, **headers}
        connection.request(method, path, body or None, sent)
        with connection.getresponse() as response:
            text = response.read().decode()
            found_headers: dict[str, str] = {}
            for name, value in response.getheaders():  # a cookie per line
                key = name.lower()
                found_headers[key] = "\n".join(filter(None, (found_headers.get(key), value)))
            answer = Answer(response.status, found_headers, text)
        connection.close()
        self.cookie = answer.headers.get("set-cookie", self.cookie).partition(";")[0]
        found = re.search('name="csrf" value="([0-9a-f]+)"', answer.text)
        self.csrf = found[1] if found else self.csrf
        return answer

    def log_in(self) -> None:
        """Open the newest link, and a page."""
        assert self.get("/login?token=" + self.links[-1].partition("token=")[2]).status == 200
        self.get("/")

    def open_live(self, held: ExitStack) -> http.client.HTTPResponse:
        """Open the stream of the overview, until `held` ends."""
        connection = http.client.HTTPConnection(
            self.address.host, self.address.port, timeout=_PATIENCE_S
        )
        held.callback(connection.close)
        headers = {"Host": str(self.address), "Cookie": self.cookie}
        connection.request("GET", "/live/overview", headers=headers)
        response = connection.getresponse()
        held.callback(response.close)
        return response


@contextmanager
def console_of(
    role: Role = Role.OPERATOR,
    store: SqliteStore | None = None,
    aggregator: str = "",
    now_s: Callable[[], int] = lambda: NOW_S,
) -> Iterator[Visitor]:
    """A console of a caller of a role; yields a visitor who has its link and has not logged in.

    Args:
      role: the caller's.
      store: of the aggregator that is served for it.
      aggregator: address of a running one, in place of it.
      now_s: the time of the calls.
    """
    if not aggregator:
        with served(store) as (address, _), console_of(role, store, address, now_s) as visitor:
            yield visitor
        return
    server = ConsoleServer(ConsoleSettings(Address("127.0.0.1", 0)))
    visitor = Visitor(Address("127.0.0.1", server.port))
    with connect(aggregator, key=KEYS[role], now_s=now_s) as connection:
        link = AggregatorLink(connection, time.monotonic)
        console = Console(
            link,
            hosts=server.hosts,
            secure=False,
            announce=visitor.links.append,
            secrets=secrets.token_bytes,
            clock_s=time.monotonic,
        )
        console.announce_link()
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(application(console), ready.set))
        thread.start()
        try:
            assert ready.wait(_PATIENCE_S)
            yield visitor
        finally:
            server.stop()
            thread.join(_PATIENCE_S)
            link.close()
