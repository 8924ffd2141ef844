"""A watch that an aggregator cuts off before its first event is made again; a refusal is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from askance_aggregator.analyst import connect
from askance_aggregator.analyst.calls import CallRefused
from askance_protos.v1 import analyst_pb2 as pb
from tests.aggregator.analyst.conftest import KEY

STUDY = "5a" * 32


@pytest.fixture
def answering() -> Iterator[Callable[[list[grpc.StatusCode]], str]]:
    """Factory of the address of an aggregator whose first watches end with these codes."""
    with ThreadPoolExecutor(4) as executor:
        server = grpc.server(executor)

        def serve(codes: list[grpc.StatusCode]) -> str:
            def watch(_: bytes, context: Any) -> Iterator[bytes]:
                if codes:
                    context.abort(codes.pop(0), "")
                yield pb.StudyEvent(state=pb.STUDY_STATE_DONE).SerializeToString()

            handler: Any = grpc.unary_stream_rpc_method_handler(watch)
            server.add_generic_rpc_handlers(
                (
                    grpc.method_handlers_generic_handler(
                        pb.DESCRIPTOR.services_by_name["Analysts"].full_name, {"Watch": handler}
                    ),
                )
            )
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            return f"127.0.0.1:{port}"

        yield serve
        server.stop(0).wait()


def test_a_first_watch_that_is_cut_off_is_made_again(answering: Any) -> None:
    waits: list[float] = []
    address = answering([grpc.StatusCode.CANCELLED] * 2)
    with connect(address, key=KEY, sleep_s=waits.append) as aggregator:
        events = list(aggregator.study(STUDY).watch(60))
    assert [event.state for event in events] == [pb.STUDY_STATE_DONE]
    assert waits == [0.5, 0.5]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND])
def test_a_first_watch_that_is_refused_is_an_error_at_once(
    answering: Any, code: grpc.StatusCode
) -> None:
    waits: list[float] = []
    with (
        connect(answering([code]), key=KEY, sleep_s=waits.append) as aggregator,
        pytest.raises(CallRefused),
    ):
        list(aggregator.study(STUDY).watch(60))
    assert waits == []
