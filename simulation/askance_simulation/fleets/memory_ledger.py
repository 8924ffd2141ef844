"""A ledger that lasts as long as its process: for simulated devices, never for a user's."""

from __future__ import annotations

from collections.abc import Iterator

from askance_client.ledger import contract

_NOTHING = contract.Totals(0, 0, 0, 0)
_FRESH = contract.Standing(None, None, _NOTHING)  # of every ledger without a charge


class MemoryLedger:
    """The ledger's contract in memory (see `Ledger`); one thread at a time.

    Payloads and studies are not kept. The sums of the latest charge's study and day are; those of
    others are added up when they are asked for. So a ledger of one charge is small and quick to
    make, which most ledgers of a simulation are.
    """

    __slots__ = (
        "_day",
        "_day_spent",
        "_entries",
        "_frozen",
        "_last_s",
        "_life",
        "_reports",
        "_study",
        "_study_answers",
        "_study_spent",
        "_work",
    )

    def __init__(self) -> None:
        self._reports: dict[bytes, bytes] = {}
        self._frozen: dict[bytes, bytes] = {}
        # Of `Entry`, all but its number; and the weight.
        self._entries: list[tuple[bytes, bytes, int, int, int]] = []
        self._study = b""  # of the latest charge
        self._study_spent = 0
        self._study_answers = 0
        self._day = 0  # of the latest charge
        self._day_spent = 0
        self._work = 0  # of the latest charge's study on its day
        self._life = 0
        self._last_s = 0

    @property
    def sequence(self) -> int:
        return len(self._entries)

    def stored(self, request_digest: bytes) -> bytes | None:
        return self._reports.get(request_digest)

    def totals(self, study_digest: bytes, day: int) -> contract.Totals:
        if not self._entries:
            return _NOTHING
        study, answers, on_day = self._study_spent, self._study_answers, self._day_spent
        work = self._work
        if study_digest != self._study:
            costs = [cost for _, other, _, cost, _ in self._entries if other == study_digest]
            study, answers = sum(costs), len(costs)
        if day != self._day:
            times = ((at_s, cost) for _, _, at_s, cost, _ in self._entries)
            on_day = sum(cost for at_s, cost in times if at_s // contract.SECONDS_PER_DAY == day)
        if (study_digest, day) != (self._study, self._day):
            work = sum(
                weight
                for _, other, at_s, _, weight in self._entries
                if other == study_digest and at_s // contract.SECONDS_PER_DAY == day
            )
        life, last_s, every = self._life, self._last_s, len(self._entries)
        return contract.Totals(study, on_day, life, last_s, 0, 0, every, answers, work)

    def standing(
        self,
        request_digest: bytes,
        question: bytes,
        study_digest: bytes,
        day: int,
        limits: contract.Limits | None = None,
    ) -> contract.Standing:
        if not self._entries:
            return _FRESH
        return contract.Standing(
            self._reports.get(request_digest),
            self._frozen.get(question),
            self._totals(study_digest, day, limits),
        )

    def commit(
        self, charge: contract.Charge, limits: contract.Limits, compose: contract.Compose
    ) -> bytes | contract.Overrun:
        contract.check_charge(charge)
        request, study, question, at_s, cost, symbol, _, _, weight = charge
        day, sequence, totals = at_s // contract.SECONDS_PER_DAY, len(self._entries) + 1, _NOTHING
        if self._entries:
            stored = self._reports.get(request)
            if stored is not None:
                return stored
            frozen = self._frozen.get(question)
            if frozen is not None:
                return compose(frozen, 0, 0, 0)
            totals = self._totals(study, day, limits)
        past = contract.overrun(totals, cost, limits, weight)
        if past is not None:
            return past
        report = compose(symbol, cost, totals.spent(limits) + cost, sequence)
        self._reports[request] = report
        self._frozen[question] = symbol
        self._entries.append((request, study, at_s, cost, weight))
        self._study = study
        self._study_spent = totals.study + cost
        self._study_answers = totals.study_answers + 1
        self._day = day
        self._day_spent = totals.day + cost
        self._work = totals.work + weight
        self._life += cost
        if at_s > self._last_s:
            self._last_s = at_s
        return report

    def _totals(
        self, study_digest: bytes, day: int, limits: contract.Limits | None
    ) -> contract.Totals:
        totals = self.totals(study_digest, day)
        if not totals.life or limits is None or (limits.window is None and limits.epoch is None):
            return totals
        window, epoch = limits.window, limits.epoch
        return totals._replace(
            window=0 if window is None else self._since(window.from_s),
            epoch=0 if epoch is None else self._since(epoch.from_s, study_digest),
        )

    def _since(self, from_s: int, study_digest: bytes | None = None) -> int:
        return sum(
            nano_nats
            for _, study, at_s, nano_nats, _ in self._entries
            if at_s >= from_s and study_digest in (None, study)
        )

    def history(self) -> Iterator[contract.Entry]:
        entries = enumerate(tuple(self._entries), start=1)
        return (contract.Entry(*entry[:4], sequence) for sequence, entry in entries)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
