"""Connections of an analyst's channel to an aggregator that takes few calls per connection."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.analyst.connections import ConnectionPool, open_channel

STREAMS = 16


def test_a_process_watches_more_studies_than_a_connection_has_streams() -> None:
    """GRPC lets one more call over a connection wait without a word."""
    ending = threading.Event()

    def watch(_: bytes, __: object) -> Any:
        yield b"open"
        ending.wait(20)

    handler: Any = grpc.unary_stream_rpc_method_handler(watch)
    with ThreadPoolExecutor(STREAMS + 5) as executor:
        server = grpc.server(executor, options=[("grpc.max_concurrent_streams", STREAMS)])
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("Studies", {"Watch": handler}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with open_channel(f"127.0.0.1:{port}", None, plaintext=True) as channel:
            dial: Any = channel.unary_stream("/Studies/Watch")
            calls = [dial(b"", timeout=20) for _ in range(STREAMS + 4)]
            try:
                assert [next(call) for call in calls] == [b"open"] * (STREAMS + 4)
            finally:
                ending.set()
                for call in calls:
                    call.cancel()
        server.stop(0).wait()


def test_a_closed_pool_refuses_a_call_by_an_error_of_its_own() -> None:
    pool = ConnectionPool("127.0.0.1:1", None, plaintext=True)
    pool.close()
    with pytest.raises(CallRefused, match="expected an open connection, got a closed one"):
        pool.channel().__enter__()
