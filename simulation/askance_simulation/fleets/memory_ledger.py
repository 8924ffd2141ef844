"""A ledger that lasts as long as its process: for simulated devices, never for a user's."""

from __future__ import annotations

from collections.abc import Iterator

from askance_client.ledger.contract import (
    MAX_ANSWERS,
    SECONDS_PER_DAY,
    Charge,
    Compose,
    Entry,
    Limits,
    Overrun,
    Standing,
    Totals,
    check_charge,
    overrun,
)


class MemoryLedger:
    """The ledger's contract on dictionaries (see `Ledger`); one thread at a time.

    Payloads and studies are not kept.
    """

    __slots__ = ("_days", "_entries", "_frozen", "_last_s", "_life", "_reports", "_studies")

    def __init__(self) -> None:
        self._reports: dict[bytes, bytes] = {}
        self._frozen: dict[bytes, bytes] = {}
        self._entries: list[tuple[bytes, bytes, int, int]] = []  # of `Entry`, all but its number
        self._studies: dict[bytes, int] = {}
        self._days: dict[int, int] = {}
        self._life = 0
        self._last_s = 0

    @property
    def sequence(self) -> int:
        return len(self._entries)

    def stored(self, request_digest: bytes) -> bytes | None:
        return self._reports.get(request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        study = self._studies.get(study_digest, 0)
        return Totals(study, self._days.get(day, 0), self._life, self._last_s)

    def standing(
        self,
        request_digest: bytes,
        question: bytes,
        study_digest: bytes,
        day: int,
        limits: Limits | None = None,
    ) -> Standing:
        return Standing(
            self._reports.get(request_digest),
            self._frozen.get(question),
            self._totals(study_digest, day, limits),
            len(self._entries),
        )

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        check_charge(charge)
        stored = self._reports.get(charge.request_digest)
        if stored is not None:
            return stored
        frozen = self._frozen.get(charge.question)
        if frozen is not None:
            return compose(frozen, 0, 0, 0)
        if len(self._entries) >= MAX_ANSWERS:
            return Overrun.ANSWERS
        cost = charge.nano_nats
        totals = self._totals(charge.study_digest, charge.day, limits)
        past = overrun(totals, cost, limits)
        if past is not None:
            return past
        study, at_s = charge.study_digest, charge.at_s
        sequence = len(self._entries) + 1
        report = compose(charge.symbol, cost, totals.spent(limits) + cost, sequence)
        self._reports[charge.request_digest] = report
        self._frozen[charge.question] = charge.symbol
        self._entries.append((charge.request_digest, study, at_s, cost))
        self._studies[study] = totals.study + cost
        self._days[at_s // SECONDS_PER_DAY] = totals.day + cost
        self._life += cost
        if at_s > self._last_s:
            self._last_s = at_s
        return report

    def _totals(self, study_digest: bytes, day: int, limits: Limits | None) -> Totals:
        totals = self.totals(study_digest, day)
        if limits is None or (limits.window is None and limits.epoch is None):
            return totals
        window, epoch = limits.window, limits.epoch
        return totals._replace(
            window=0 if window is None else self._since(window.from_s),
            epoch=0 if epoch is None else self._since(epoch.from_s, study_digest),
        )

    def _since(self, from_s: int, study_digest: bytes | None = None) -> int:
        return sum(
            nano_nats
            for _, study, at_s, nano_nats in self._entries
            if at_s >= from_s and study_digest in (None, study)
        )

    def history(self) -> Iterator[Entry]:
        entries = enumerate(tuple(self._entries), start=1)
        return (Entry(*entry, sequence) for sequence, entry in entries)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
