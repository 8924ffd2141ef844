"""The services of the compose file as processes on loopback, started as compose would start them.

Command lines, settings, secrets, volumes, dependencies, health checks and restarts are read from
`deploy/compose/`. A container's paths and addresses are replaced by paths in a folder and by ports
of 127.0.0.1. PostgreSQL is a real server; haproxy runs where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.deployment.manifests import COMPOSE, ENTRYPOINTS, ROOT, compose, image_name
from tests.ports import free_port
from tests.postgresql import PostgresqlServer
from tests.sources import FOLDERS

PATIENCE_S = 90.0
NOT_RUN = {"postgresql", "prometheus", "grafana"}
"""Services whose programs the tests do not start: the first is a server of the tests' own."""

_PORTS = (7443, 7444, 7445)  # open to all, of metrics, and of devices


def environment() -> dict[str, str]:
    """Return this process's variables, with the programs and the sources that are tested."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    sources = os.pathsep.join(str(ROOT / name) for name in FOLDERS)
    return os.environ | {"PATH": path, "PYTHONPATH": sources}


def prepared(folder: Path, records: Path, schema: Path, key: str) -> Path:
    """Copy deploy/compose into a folder and run `prepare` there, as an operator does."""
    made = folder / "compose"
    kept = shutil.ignore_patterns("service", ".env")
    shutil.copytree(COMPOSE.parent, made, ignore=kept)
    ran(made / "prepare", records, schema, key)
    return made


def ran(*words: str | Path) -> str:
    """Run a command to its end, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Composition:
    """Services of a prepared folder.

    Args:
      folder: what `prepared` returns.
      database: PostgreSQL's address, in place of the service's.
    """

    def __init__(self, folder: Path, database: str) -> None:
        self._folder, self._database = folder, database
        self._file = compose()
        self._services: Mapping[str, Any] = self._file["services"]
        self._ports = {name: {port: free_port() for port in _PORTS} for name in self._services}
        self._haproxy = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
        if self._haproxy is None:
            self._ports["haproxy"] = self._ports["aggregator-1"]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[str] = set()
        self._failed: set[str] = set()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._supervisor = threading.Thread(target=self._restart, daemon=True)

    @classmethod
    @contextmanager
    def running(cls, folder: Path, server: PostgresqlServer) -> Iterator[Composition]:
        """Make the database of the compose file, and end every service after the block."""
        settings = compose()["services"]["postgresql"]["environment"]
        assert settings["POSTGRES_USER"] == "askance"  # as in the tests' server
        server.execute(f"CREATE DATABASE {settings['POSTGRES_DB']}")
        made = cls(folder, server.url(settings["POSTGRES_DB"]))
        made._supervisor.start()
        try:
            yield made
        finally:
            made._stop()

    @property
    def address(self) -> str:
        """HOST:PORT that the compose file publishes."""
        return f"127.0.0.1:{self._ports['haproxy'][7443]}"

    def metrics_of(self, service: str) -> str:
        """Return the HOST:PORT of an aggregator's page of metrics."""
        return f"127.0.0.1:{self._ports[service][7444]}"

    def log_of(self, service: str) -> str:
        """Return what a service has written."""
        return self._log(service).read_text()

    def up(self, service: str) -> None:
        """Start a service after those that it depends on; one that runs or has ended stays."""
        if service in NOT_RUN or service in self._running or service in self._ended:
            return
        given = self._services[service].get("depends_on", {})
        wanted = given if isinstance(given, dict) else {name: {} for name in given}
        for name, how in wanted.items():
            self.up(name)
            if how.get("condition") == "service_completed_successfully":
                self._await_end(name)
        if service == "haproxy" and self._haproxy is None:
            return
        with self._guard:
            self._start(service)

    def finish(self, service: str) -> str:
        """Run a service of one command until it succeeds, and return its log."""
        self.up(service)
        self._await_end(service)
        return self.log_of(service)

    def is_healthy(self, service: str) -> bool:
        """Run a service's own health check."""
        kind, *words = self._services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        done = subprocess.run(self._words(service, words), env=environment(), capture_output=True)
        return done.returncode == 0

    def kill(self, service: str) -> None:
        """Kill a service, which is then started again as its policy says."""
        self._running[service].kill()

    def _start(self, service: str) -> None:
        image = image_name(self._services[service]["image"])
        words = [*ENTRYPOINTS.get(image, []), *self._services[service]["command"]]
        with self._log(service).open("ab") as log:
            self._running[service] = subprocess.Popen(
                self._words(service, words), env=environment(), stdout=log, stderr=log
            )

    def _words(self, service: str, words: list[str]) -> list[str]:
        if words[0] == "haproxy":
            words = [str(self._haproxy), *words[1:]]
        return [self._elsewhere(service, word) for word in words]

    def _elsewhere(self, service: str, text: str) -> str:
        """Replace a container's paths and addresses in a text."""
        for inside, outside in self._mounts(service):
            text = text.replace(inside, str(outside))
        text = text.replace("postgresql://askance@postgresql:5432/askance", self._database)
        for port, mine in self._ports[service].items():
            text = re.sub(rf"(?:0\.0\.0\.0|127\.0\.0\.1):{port}\b", f"127.0.0.1:{mine}", text)
            text = text.replace(f"bind :{port}", f"bind 127.0.0.1:{mine}")
        for name, ports in self._ports.items():
            for port, other in ports.items():
                text = re.sub(rf"\b{name}:{port} check port 7444",
                              f"127.0.0.1:{other} check port {ports[7444]}", text)  # fmt: skip
                text = text.replace(f"{name}:{port}", f"127.0.0.1:{other}")
        told = f"advertised = '127.0.0.1:{self._ports['haproxy'][7445]}'"
        text = text.replace('# advertised = "devices.example.org:7445"', told)
        if self._haproxy is None:  # no proxy sends a header
            text = text.replace('proxy_protocol = ["172.30.74.0/24"]', "")
        return text.replace("172.30.74.0/24", "127.0.0.0/8").replace("maxconn 20000", "maxconn 500")

    def _mounts(self, service: str) -> Iterator[tuple[str, Path]]:
        """Yield the paths in a container, the longest first, and what they are here."""
        given = self._services[service]
        found: dict[str, Path] = {}
        for name in given.get("secrets", ()):
            found[f"/run/secrets/{name}"] = self._folder / self._file["secrets"][name]["file"]
        for one in given.get("configs", ()):
            found[one["target"]] = self._own(service) / Path(one["target"]).name
        for volume in given.get("volumes", ()):
            source, target, *_ = volume.split(":")
            found[target] = self._folder / source
        return iter(sorted(found.items(), key=lambda mount: -len(mount[0])))

    def _own(self, service: str) -> Path:
        folder = self._folder / "containers" / service
        if not folder.is_dir():
            folder.mkdir(parents=True)
            self._copy_settings(service, folder)
        return folder

    def _copy_settings(self, service: str, folder: Path) -> None:
        for one in self._services[service].get("configs", ()):
            source = self._folder / self._file["configs"][one["source"]]["file"]
            text = self._elsewhere(service, source.read_text())
            (folder / Path(one["target"]).name).write_text(text)
        for volume in self._services[service].get("volumes", ()):
            settings = self._folder / volume.split(":")[0] / "device.toml"
            if settings.is_file():
                settings.write_text(self._elsewhere(service, settings.read_text()))

    def _log(self, service: str) -> Path:
        return self._own(service) / "log"

    def _await_end(self, service: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while service not in self._ended:
            assert service not in self._failed, self.log_of(service)
            assert time.monotonic() < until, self.log_of(service)
            time.sleep(0.05)

    def _restart(self) -> None:
        """Start again what has ended, unless its policy lets it end."""
        while not self._stopping.wait(0.1):
            with self._guard:
                for service, process in list(self._running.items()):
                    code, policy = process.poll(), self._services[service]["restart"]
                    if code is None:
                        continue
                    if policy == "unless-stopped" or (policy == "on-failure" and code):
                        self._start(service)
                    elif code == 0:
                        del self._running[service]
                        self._ended.add(service)
                    else:
                        self._failed.add(service)

    def _stop(self) -> None:
        self._stopping.set()
        self._supervisor.join()
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
