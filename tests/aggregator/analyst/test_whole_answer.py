"""An answer in parts that is cut off is asked for anew, and a refusal is not."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from askance_aggregator.analyst.connections import whole_answer


class Failure(grpc.RpcError, grpc.Call):  # type: ignore[misc]  # gRPC has no types
    """The end of a call."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code


for _name in getattr(Failure, "__abstractmethods__", ()):
    setattr(Failure, _name, lambda self, *_: None)
Failure.__abstractmethods__ = frozenset()


def test_a_cut_off_answer_begins_anew_and_none_of_its_parts_is_kept() -> None:
    calls, waits = [0], list[float]()

    def ask() -> Iterator[bytes]:
        calls[0] += 1
        yield b"first %d" % calls[0]
        if calls[0] < 3:
            raise Failure(grpc.StatusCode.UNAVAILABLE)  # type: ignore[abstract]  # one method
        yield b"last"

    assert whole_answer(ask, waits.append) == [b"first 3", b"last"]
    assert (calls, waits) == ([3], [0.5, 0.5])


@pytest.mark.parametrize(
    ("code", "calls"), [(grpc.StatusCode.UNAVAILABLE, 3), (grpc.StatusCode.NOT_FOUND, 1)]
)
def test_it_ends_with_the_last_failure(code: grpc.StatusCode, calls: int) -> None:
    made = [0]

    def ask() -> Iterator[bytes]:
        made[0] += 1
        raise Failure(code)  # type: ignore[abstract]  # one method is used
        yield b""

    with pytest.raises(grpc.RpcError):
        whole_answer(ask, lambda _: None)
    assert made == [calls]
