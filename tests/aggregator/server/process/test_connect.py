"""A serving aggregator with [connect]: pages of its origins call, and others once it is told."""

from __future__ import annotations

import http.client
import signal
import ssl
import time
from collections.abc import Mapping

from askance_aggregator.server.process.home import AggregatorHome
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, serving

FIRST, SECOND = "https://ask.example.org", "http://localhost:8000"


def preflight(served: Served, origin: str) -> tuple[int, Mapping[str, str]]:
    """Ask as a page's browser does before its first call."""
    context = ssl.create_default_context(cafile=str(served.home.authority))
    host, _, port = served.address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE_S, context=context)
    try:
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        connection.request("OPTIONS", "/askance.v1.Devices/CheckIn", headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders())
    finally:
        connection.close()


def test_origins_are_read_again(fresh: AggregatorHome) -> None:
    settings = fresh.configuration
    usual = settings.read_text()
    settings.write_text(usual + f'\n[connect]\norigins = ["{FIRST}"]\n')
    with serving(fresh) as served:
        status, headers = preflight(served, FIRST)
        assert (status, headers["Access-Control-Allow-Origin"]) == (204, FIRST)
        assert preflight(served, SECOND)[0] == 403
        settings.write_text(usual + f'\n[connect]\norigins = ["{SECOND}"]\n')
        served.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_S
        while preflight(served, SECOND)[0] != 204:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert preflight(served, FIRST)[0] == 403
        settings.write_text(usual)
        served.process.send_signal(signal.SIGHUP)
        while not any(event.get("settings") == ["connect"] for event in served.events()):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert preflight(served, SECOND)[0] == 403  # no page any more; the rest at the next start
