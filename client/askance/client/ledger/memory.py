"""A ledger that lasts as long as its process: for simulated devices, never for a person's."""

from __future__ import annotations

from collections.abc import Iterator

from askance.client.ledger.contract import (
    MAX_ANSWERS,
    Charge,
    Compose,
    Entry,
    Limits,
    Overrun,
    Totals,
    overrun,
)


class MemoryLedger:
    """The ledger's contract on dictionaries (see `Ledger`); one thread at a time."""

    __slots__ = ("_days", "_entries", "_frozen", "_last_day", "_life", "_reports", "_studies")

    def __init__(self) -> None:
        self._reports: dict[bytes, bytes] = {}
        self._frozen: dict[bytes, bytes] = {}
        self._entries: list[Entry] = []
        self._studies: dict[bytes, int] = {}
        self._days: dict[int, int] = {}
        self._life = 0
        self._last_day = 0

    def stored(self, request_digest: bytes) -> bytes | None:
        return self._reports.get(request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        study = self._studies.get(study_digest, 0)
        return Totals(study, self._days.get(day, 0), self._life, self._last_day)

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        stored = self._reports.get(charge.request_digest)
        if stored is not None:
            return stored
        if len(self._entries) >= MAX_ANSWERS:
            return Overrun.ANSWERS
        totals = self.totals(charge.study_digest, charge.day)
        frozen = self._frozen.get(charge.question)
        symbol, cost = (charge.symbol, charge.nano_nats) if frozen is None else (frozen, 0)
        past = overrun(totals, cost, limits)
        if past is not None:
            return past
        report = compose(symbol, cost, totals.study + cost)
        self._reports[charge.request_digest] = report
        self._frozen[charge.question] = symbol
        self._entries.append(Entry(charge.request_digest, charge.study_digest, charge.day, cost))
        self._studies[charge.study_digest] = totals.study + cost
        self._days[charge.day] = totals.day + cost
        self._life += cost
        self._last_day = max(self._last_day, charge.day)
        return report

    def history(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def close(self) -> None:
        """Nothing to release."""
