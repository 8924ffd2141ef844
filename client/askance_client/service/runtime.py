"""A device at work: it fetches requests, lets its core answer them, and delivers the reports."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from grpc import aio

from askance_client.device import Device
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, Refusal
from askance_client.service import exchange, observable
from askance_client.service.answering import DeviceAnswers
from askance_client.service.credentials import device_metadata
from askance_client.service.evaluation import Evaluation, evaluate_at_once
from askance_client.service.identity import Identity

MAX_UNACKNOWLEDGED = 1024


class Outbox:
    """Keeps each report's bytes until its request is acknowledged, whatever the acknowledgement.

    What is lost with the process is not lost: the ledger has it, and an aggregator that misses it
    sends the request again.
    """

    __slots__ = ("_reports",)

    def __init__(self) -> None:
        self._reports: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, request_digest: bytes, report: bytes) -> None:
        """Keep a report."""
        if len(self._reports) >= MAX_UNACKNOWLEDGED and request_digest not in self._reports:
            raise RemoteProtocolError(
                f"exchange: expected at most {MAX_UNACKNOWLEDGED} reports without an"
                " acknowledgement, found one more request"
            )
        self._reports[request_digest] = report

    def acknowledge(self, request_digest: bytes, status: AckStatus) -> None:
        """Forget a report: accepted or not, to send it again would change nothing."""
        self._reports.pop(request_digest, None)

    def batches(self) -> list[tuple[bytes, ...]]:
        """All that is kept, oldest first, cut to what a message may have."""
        return observable.report_batches(self._reports.values())


class LedgerOlder(RemoteProtocolError):
    """An aggregator has acknowledged more answers than the ledger holds.

    The ledger is older than it was (a restored copy), or the aggregator lies. Nothing was answered.
    """


class DeviceRunner:
    """Check-ins of one device with its aggregator.

    Privacy: nothing is decided here; what leaves is what `Device.answer` returned, durable already,
      and a repetition is the same bytes.

    Args:
      channel: to the aggregator; may be shared by many devices of one process.
      release_ms: reports leave at a multiple of this many milliseconds since their requests, all
        of one message together, so that the time an answer took does not show. 0 sends them at
        once (for simulated devices).
    """

    def __init__(
        self,
        device: Device,
        identity: Identity,
        channel: aio.Channel,
        *,
        sleep: observable.Sleep = observable.sleep_ms,
        offload: Executor | None = None,
        evaluate: Evaluation = evaluate_at_once,
        release_ms: int = 0,
        now_ms: Callable[[], float] = observable.monotonic_ms,
        on_report: Callable[[bytes], None] | None = None,
        on_refusal: Callable[[Refusal], None] | None = None,
    ) -> None:
        self._device = device
        self._identity = identity
        self._metadata = device_metadata(identity)
        # Without serializers: messages are bytes here, so that they are bounded before parsing.
        self._check_in: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{exchange.SERVICE}/CheckIn"
        )
        self._sleep = sleep
        self._release_ms = release_ms
        self._now_ms = now_ms
        self._answering = DeviceAnswers(
            offload=offload, evaluate=evaluate, on_report=on_report, on_refusal=on_refusal
        )
        self._outbox = Outbox()

    @property
    def device(self) -> Device:
        """Device that answers."""
        return self._device

    @property
    def unacknowledged(self) -> int:
        """Number of reports kept for another delivery."""
        return len(self._outbox)

    async def check_in_once(self) -> int:
        """Deliver unacknowledged reports, fetch requests, answer them and deliver the answers.

        Return when the aggregator would like the next check-in, in milliseconds.
        """
        response = await self._exchange(self._first_batch())
        for _ in range(observable.MAX_EXCHANGES):
            reports = self._first_batch()
            if not reports:
                break
            response = await self._exchange(reports)
        return response.retry_after_ms

    async def _exchange(self, reports: tuple[bytes, ...]) -> exchange.Response:
        await self._answering.quiet()
        data = await self._check_in(
            self._greeting(reports), timeout=observable.CALL_TIMEOUT_S, metadata=self._metadata
        )
        response = exchange.decode_response(data)
        if len(response.acks) < len(reports):
            raise RemoteProtocolError(
                f"exchange: expected {len(reports)} acknowledgements, found {len(response.acks)}"
            )
        await self._take(response)
        return response

    def _first_batch(self) -> tuple[bytes, ...]:
        return next(iter(self._outbox.batches()), ())

    def _greeting(self, reports: tuple[bytes, ...]) -> bytes:
        known = self._device.known_studies[-exchange.MAX_KNOWN_STUDIES :]
        return exchange.encode_check_in(exchange.CheckIn(reports=reports, known_studies=known))

    async def _take(self, response: exchange.Response) -> tuple[bytes, ...]:
        """Do what a response says and return the reports it led to, which are kept as well."""
        if not response.requests:
            await self._settle(response)
            self._meet(response)
            return ()
        return await observable.on_grid(
            self._answer(response), self._release_ms, self._sleep, self._now_ms
        )

    async def _settle(self, response: exchange.Response) -> None:
        """Compare the sequence numbers, and forget the reports that are acknowledged."""
        await self._check_sequence(response.acknowledged_sequence)
        for digest, status in response.acks:
            self._outbox.acknowledge(digest, status)

    async def _check_sequence(self, acknowledged: int) -> None:
        """Refuse an exchange whose aggregator is ahead of the ledger; nothing of it is kept."""
        if acknowledged:
            await check_sequence(self._answering, self._device, self._identity, acknowledged)

    def _meet(self, response: exchange.Response) -> None:
        for study in response.studies:
            self._answering.meet(self._device, study)

    async def _answer(self, response: exchange.Response) -> tuple[bytes, ...]:
        await self._settle(response)
        self._meet(response)
        reports = await self._answering.answer(self._device, response.requests)
        for digest, report in reports.items():
            self._outbox.put(digest, report)
        return tuple(reports.values())


async def check_sequence(
    answering: DeviceAnswers, device: Device, identity: Identity, acknowledged: int
) -> None:
    """Refuse an aggregator that is ahead of a device's ledger."""
    held = await answering.work(lambda: device.ledger.sequence)
    if acknowledged > held:
        raise LedgerOlder(
            f"device {identity.device_id.hex()}: expected an aggregator that has at most {held}"
            f" numbered answers, got one that has {acknowledged}: the ledger is older than it was,"
            " or the aggregator lies (see device accept-loss)"
        )
