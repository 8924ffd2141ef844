"""A stopped device that was asked about a study, and its owner's page on a free port."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from askance_client.cli.folder import ask
from askance_client.cli.report import csv_history
from askance_client.console.command import OwnerSite, refusal
from askance_client.console.parts import OwnersView
from askance_client.console.server import OwnerServer
from askance_client.console.session import OwnerSession, write_link
from tests.client.cli.test_deciding import Folder

SECRET = "secret{}-of-more-than-thirty-two-characters"


@dataclass(frozen=True)
class Reply:
    """Answer of the page."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Served:
    """The page of a folder, with the clock of its login and the operations that it asked for."""

    folder: Folder
    member: str = ""
    request_s: int = 5
    now_s: int = 0
    asked: list[str] = field(default_factory=list)
    cookie: str = ""

    def __enter__(self) -> Served:
        numbers = count()
        file = self.folder.path / "console-link"
        self.session = OwnerSession(lambda: SECRET.format(next(numbers)), lambda: self.now_s, file)
        self.server = OwnerServer(0, self.request_s)
        write_link(file, f"http://{self.host}", SECRET.format("link"), self.now_s)
        view = OwnersView(self.session.form_token, self.member)
        operation = partial(ask, self.folder.home, self.folder.home.configuration)

        def recorded(name: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
            self.asked.append(name)
            return operation(name, arguments)

        site = OwnerSite(recorded, csv_history, self.session, view, self.server.hosts)
        self.server.respond, self.server.refuse = site.respond, refusal
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def send(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] = {}
    ) -> Reply:
        """Send a request to a whole path, with these headers alone."""
        connection = HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(None if body is None else body.encode())
            found = connection.getresponse()
            return Reply(found.status, dict(found.getheaders()), found.read().decode())
        finally:
            connection.close()

    def log_in(self) -> Reply:
        found = self.send("GET", self.session.link)
        self.cookie = found.headers.get("Set-Cookie", "").split(";")[0]
        return found

    def get(self, name: str = "") -> Reply:
        """A page of the browser that is logged in."""
        return self.send("GET", self.session.path + name, headers={"Cookie": self.cookie})

    def post(self, name: str, headers: Mapping[str, str] = {}, /, **form: str) -> Reply:
        """A form of this browser, with the right token unless another is given."""
        given = {"token": self.session.form_token, **form}
        sent = {"Cookie": self.cookie, "Origin": f"http://{self.host}", **headers}
        return self.send("POST", self.session.path + name, urlencode(given), sent)

    def study(self) -> dict[str, str]:
        """Names of the folder's study, as its form sends them."""
        text = self.get("studies").text
        found = re.search(r"study\?study=(\w{64})&amp;analyst=(\w{64})", text)
        assert found is not None, text
        return {"study": found[1], "analyst": found[2]}

    def state(self) -> dict[str, Any]:
        """The study as the device has it, without the page."""
        made = ask(self.folder.home, self.folder.home.configuration, "studies", {})
        (study,) = json.loads(json.dumps(made))
        return dict(study)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "device")


@pytest.fixture
def page(folder: Folder) -> Iterator[Served]:
    """The page of a device with a study that waits, logged in."""
    folder.meet()
    with Served(folder) as served:
        assert served.log_in().status == 303
        yield served
