"""Answers to the requests of one message, with what may wait for a disk or hang beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from askance_client.device import Device, Turn
from askance_client.messages import Refusal, SignedStudy
from askance_client.service.evaluation import Evaluation, evaluate_at_once

T = TypeVar("T")


class DeviceAnswers:
    """Lets devices answer; one message of a device at a time.

    Privacy: nothing is decided here; what leaves is what the device's core has made durable.

    Args:
      offload: where requests are settled and committed when that waits for a disk; None: in place.
      on_report: given every report when the core has made it durable.
      on_refusal: given every refusal with its text, which does not leave.
    """

    def __init__(
        self,
        *,
        offload: Executor | None = None,
        evaluate: Evaluation = evaluate_at_once,
        on_report: Callable[[bytes], None] | None = None,
        on_refusal: Callable[[Refusal], None] | None = None,
    ) -> None:
        self._offload = offload
        self._evaluate = evaluate
        self._on_report = on_report
        self._on_refusal = on_refusal

    def meet(self, device: Device, study: SignedStudy) -> None:
        """Let a device meet a study.

        A refusal is no failure: a request of such a study is refused one by one, with a reason
        that the aggregator gets to see.
        """
        self._refused(device.introduce(study))

    async def answer(self, device: Device, requests: tuple[bytes, ...]) -> dict[bytes, bytes]:
        """Settle all requests of a message, then evaluate and draw, then commit.

        What does not fit one turn by its public weight is answered in the next one.

        Return the reports that may be sent, by their requests' digests.
        """
        reports: dict[bytes, bytes] = {}
        while requests:
            turn = await self._begin(device, requests)
            finishing = False
            try:
                for refusal in turn.refusals:
                    self._refused(refusal)
                if turn.pending:
                    await self._evaluate(turn.work, device)
                finishing = True  # from here on the turn ends by itself, in its thread
                reports |= await self.work(turn.finish)
            finally:
                if not finishing:
                    turn.close()
            requests = turn.left
        if self._on_report is not None:
            for report in reports.values():
                self._on_report(report)
        return reports

    async def quiet(self) -> None:
        """Wait until no work on a record can delay what leaves the process."""
        await self._evaluate.quiet()

    async def work(self, work: Callable[[], T]) -> T:
        """Do some work where it may wait for a disk; it is done even if the caller is cancelled."""
        if self._offload is None:
            return work()
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._offload, work))

    async def _begin(self, device: Device, requests: tuple[bytes, ...]) -> Turn:
        if self._offload is None:
            return device.begin(requests)
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(self._offload, device.begin, requests)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(_close)  # or it would hold the device for ever
            raise

    def _refused(self, refusal: Refusal | None) -> None:
        if refusal is not None and self._on_refusal is not None:
            self._on_refusal(refusal)


def _close(beginning: asyncio.Future[Turn]) -> None:
    """Close the turn that a cancelled caller has begun."""
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()
