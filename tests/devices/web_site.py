"""An aggregator with [connect], and the page of `examples/web` at an origin of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.protobuf import json_format

from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import encode_schema
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.tokens import read_tokens
from askance_client.queries import Schema
from tests.aggregator.server.process.conftest import Served, made, serving
from tests.aggregator.server.process.people import submit

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "web"
PATIENCE_S = 60


@dataclass
class Site:
    """A serving aggregator and where its page is."""

    home: AggregatorHome
    served: Served
    page: str

    def token(self, devices: int = 1) -> str:
        """Make a token for so many devices."""
        key = self.home.folder / "enrolment.key"
        return read_tokens(key, system_now_s).issue(devices, 1).text

    def submitted(self) -> str:
        """Submit a study of all devices and return its digest."""
        key = load_pem_private_key(self.home.analyst_key.read_bytes(), None)
        with self.served.channel() as channel:
            return submit(channel, key).hex()


@contextmanager
def web_site(
    folder: Path, schema: Schema, trusted: str = "", source: Path = EXAMPLE, **settings: Any
) -> Iterator[Site]:
    """Serve both until the end of the block.

    Args:
      folder: for all files.
      schema: of the records.
      trusted: a network of which each address may hold any number of connections; empty: none.
      source: of the page.
      settings: of the page, in place of usual ones.
    """
    home = made(folder / "aggregator", now_s=system_now_s())
    with page_server(folder / "site") as page:
        text = home.configuration.read_text()
        proxies = f'trusted_proxies = ["{trusted}"]' if trusted else "trusted_proxies = []"
        text = text.replace("trusted_proxies = []", proxies)
        told = f'\n[connect]\norigins = ["{page}"]\ncheck_in_every_s = 1\n'
        home.configuration.write_text(text + told)
        with serving(home) as served:
            build(folder / "site", {**usual(home, served, schema), **settings}, source)
            yield Site(home, served, f"{page}/")


def until(met: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def usual(home: AggregatorHome, served: Served, schema: Schema) -> dict[str, Any]:
    """The page's settings."""
    return {
        "title": "Answer for a study",
        "about": "A demonstration.",
        "aggregator": f"https://{served.address}",
        "analysts": [home.analyst.hex()],
        "life_epsilon": "8",
        "schema": json_format.MessageToDict(encode_schema(schema)),
        "release_ms": 400,
        "least_wait_ms": 500,
    }


def build(out: Path, settings: Mapping[str, Any], source: Path = EXAMPLE) -> None:
    """Build the page by esbuild."""
    file = out.parent / "settings.json"
    file.write_text(json.dumps(settings))
    subprocess.run(["node", source / "build.mjs", file, out], check=True, timeout=60)


@contextmanager
def page_server(folder: Path) -> Iterator[str]:
    """Serve a folder by the example's own server; yield its origin."""
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    folder.mkdir()
    with serve.server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
