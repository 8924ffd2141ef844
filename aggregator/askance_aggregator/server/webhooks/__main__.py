"""Program of the sending process; `deliverer` starts it.

A line of JSON on stdin is a message and where it goes; a line on stdout is its outcome,
{"error": ""} if the receiver answered 2xx. The end of stdin ends the process.
"""

from __future__ import annotations

import json
import signal
import ssl
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from askance_aggregator.server.outer.child_process import limit_memory

_MEMORY_BYTES = 512 << 20  # a message, its text and its bytes, and a receiver's head of 6 MB


class _TimeUp(Exception):
    """The time of a try is over."""


def send(request: Mapping[str, Any]) -> str:
    """Send a message and return the error; "" if the receiver answered 2xx."""
    timeout_s = float(request["timeout_s"])
    connection: HTTPConnection | None = None
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        connection = _connection(request["url"], request["ca"], timeout_s)
        parts = urlsplit(request["url"])
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, request["body"].encode(), request["headers"])
        status = connection.getresponse().status  # its body is not read
        return "" if status // 100 == 2 else f"expected status 2xx, got {status}"
    except (_TimeUp, TimeoutError):
        return f"expected an answer within {timeout_s:g} s, got none"
    except ssl.SSLCertVerificationError as error:
        return f"certificate: {error.verify_message}"
    except OSError as error:
        return f"connection: {error.strerror or type(error).__name__}"
    except (HTTPException, ValueError) as error:
        return f"answer: expected HTTP, got {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if connection is not None:
            connection.close()


def _connection(url: str, ca: str | None, timeout_s: float) -> HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca)
        return HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
    return HTTPConnection(host, parts.port, timeout=timeout_s)


def _time_is_up(_: int, __: FrameType | None) -> None:
    raise _TimeUp


def main() -> None:
    """Send messages until stdin ends."""
    limit_memory(_MEMORY_BYTES)
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the aggregator ends this process
    print("ready", flush=True)
    for line in sys.stdin.buffer:
        print(json.dumps({"error": send(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main()
