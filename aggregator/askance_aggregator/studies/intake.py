"""Checks of reports, the same for every fleet."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Group, Round
from askance_aggregator.studies.tallies import Places, SymbolTable, Tally
from askance_client.codec import decode_report
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, Refusal, Report
from askance_client.randomizers import Randomizer

_MAX_SEQUENCE = (1 << 63) - 1  # no ledger numbers further, and no store keeps more
_MAX_SPENT = 1 << 62  # a total that no ledger can hold is a lie, and would overflow the accounts
_SHORT_SYMBOL = 8  # bytes of a symbol that is looked at once per round
_SHORT = 128  # bytes of a report that others are likely to send as well, or to be read again

# Symbols are few: most reports of a round equal another user's, byte for byte. Replicas read what
# they have stored themselves once more.
_decoded = lru_cache(maxsize=1 << 14)(decode_report)


def decoded(data: bytes) -> Report:
    """Decode a report; equal short ones are decoded once.

    Raises:
      RemoteProtocolError: it is no report.
    """
    return _decoded(data) if len(data) <= _SHORT else decode_report(data)


class Arrival(NamedTuple):
    """A report that passed the checks, ready to be made durable and then entered."""

    group: int
    place: int
    ordinal: int
    report: Report
    data: bytes


class Intake:
    """Checks and enters the reports of one round.

    `examine` is pure; `enter` counts. Between the two a service makes the report durable; a report
    is entered once, so the caller enters only what its store accepted as new.
    """

    def __init__(self, round_: Round, accounts: Accounts) -> None:
        self._round = round_
        self._tables = tuple(SymbolTable(group) for group in round_.groups)
        cohorts = {group.cohort for group in round_.groups}
        places = {cohort: Places(cohort.members) for cohort in cohorts}
        self._places = tuple(places[group.cohort] for group in round_.groups)
        self._accounts = tuple(accounts.of(group.cohort) for group in round_.groups)
        self._open = sum(table.open for table in self._tables)
        self._groups = {group.digest: number for number, group in enumerate(round_.groups)}
        self._valid = tuple(_validity(group.randomizer) for group in round_.groups)

    @property
    def complete(self) -> bool:
        """True if every member of every group has answered or refused."""
        return self._open == 0

    @property
    def open(self) -> int:
        """Number of answers still missing."""
        return self._open

    def owes(self, ordinal: int) -> list[Group]:
        """The groups whose request this user has neither answered nor refused."""
        owed = []
        for group, table, places in zip(
            self._round.groups, self._tables, self._places, strict=True
        ):
            index = places.of(ordinal)
            if index is not None and not table.settled(index):
                owed.append(group)
        return owed

    def examine(self, ordinal: int, data: bytes) -> Arrival | AckStatus:
        """Check a delivered report: known request, asked of this user, in the alphabet.

        Returns:
          The arrival to be entered, or UNKNOWN or MALFORMED.
        """
        try:
            report = decoded(data)
        except RemoteProtocolError:
            return AckStatus.MALFORMED
        return self.check(ordinal, report, data)

    def check(self, ordinal: int, report: Report, data: bytes) -> Arrival | AckStatus:
        """The same for a report that is decoded already from `data`."""
        number = self._groups.get(report.request_digest)
        index = None if number is None else self._places[number].of(ordinal)
        if number is None or index is None:
            return AckStatus.UNKNOWN
        if not self._plausible(report, number):
            return AckStatus.MALFORMED
        return Arrival(number, index, ordinal, report, data)

    def add(self, arrival: Arrival) -> None:
        """Count a report; what is settled already is left as it is."""
        table = self._tables[arrival.group]
        if table.settled(arrival.place):
            return
        report = arrival.report
        if isinstance(report.outcome, Refusal):
            table.refuse(arrival.place, report.outcome.reason)
        else:
            table.write(arrival.place, report.outcome, reused=not report.charged_nano_nats)
        self._open -= 1
        account = self._accounts[arrival.group]
        account.confirm(arrival.place, report.charged_nano_nats, report.spent_nano_nats)

    def tallies(self) -> tuple[Tally, ...]:
        """Close the round."""
        return tuple(table.tally() for table in self._tables)

    def _plausible(self, report: Report, number: int) -> bool:
        charged = report.charged_nano_nats
        if report.spent_nano_nats > _MAX_SPENT or charged > report.spent_nano_nats:
            return False
        if report.sequence > _MAX_SEQUENCE:
            return False
        outcome = report.outcome
        if isinstance(outcome, Refusal):
            return charged == 0
        # Whatever a device says it was charged, this randomizer never costs more than its loss.
        return charged <= self._round.groups[number].nano_nats and self._valid[number](outcome)


def _validity(randomizer: Randomizer) -> Callable[[bytes], bool]:
    """Return a randomizer's check of a symbol, which looks at each short symbol once."""
    if randomizer.width > _SHORT_SYMBOL:
        return randomizer.valid
    width, checked = randomizer.width, lru_cache(maxsize=1 << 12)(randomizer.valid)
    return lambda symbol: len(symbol) == width and checked(symbol)  # no long symbol is kept
