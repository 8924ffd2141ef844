"""Checks of reports, the same for every fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Group, Round
from askance_aggregator.studies.tallies import Places, SymbolTable, Tally
from askance_client.codec import decode_report
from askance_client.errors import RemoteProtocolError
from askance_client.exact_laws import valid
from askance_client.messages import AckStatus, Reason, Refusal, Report
from askance_client.randomizers import Randomizer

_MAX_SEQUENCE = (1 << 63) - 1  # no ledger numbers further, and no store keeps more
_MAX_SPENT = 1 << 62  # a total that no ledger can hold is a lie, and would overflow the accounts
_SHORT_SYMBOL = 8  # bytes of a symbol that is looked at once per round
_SHORT = 128  # bytes of a report that others are likely to send as well, or to be read again
_SEQUENCE_TAG = 6 << 3  # of the field of a report's sequence number, a varint
_SEQUENCE_BYTES = 9  # at most, of a number up to `_MAX_SEQUENCE`

# Symbols are few: most reports of a round equal another user's, byte for byte. Replicas read what
# they have stored themselves once more.
_decoded = lru_cache(maxsize=1 << 14)(decode_report)


def decoded(data: bytes) -> Report:
    """Decode a report; equal short ones are decoded once.

    Raises:
      RemoteProtocolError: it is no report.
    """
    return _decoded(data) if len(data) <= _SHORT else decode_report(data)


def without_sequence(data: bytes) -> tuple[bytes, int]:
    """Split off the sequence number with which a short report ends, as devices write it.

    A serialised message followed by a field is that message with that field. So if the first part
    is a report, `data` is the same report with the sequence number, wherever it was split. Reports
    differ in the number where they are equal otherwise.

    Returns:
      The bytes before the field, and the number; `data` and 0 if it does not end with the field.
    """
    if not 2 < len(data) <= _SHORT or data[-1] > 127:
        return data, 0
    number, place = data[-1], len(data) - 2
    while data[place] > 127 and place > 0:
        number = number << 7 | data[place] & 127
        place -= 1
    if data[place] != _SEQUENCE_TAG or len(data) - place > _SEQUENCE_BYTES + 1:
        return data, 0
    return data[:place], number


class Arrival(NamedTuple):
    """A report that passed the checks, ready to be made durable and then entered."""

    group: int
    place: int
    ordinal: int
    report: Report
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class CheckedMessage:
    """Reports of one message that passed the checks, whichever member of their cohort sent them.

    Their sequence numbers, which no check depends on, are left out.

    Args:
      cohort: number of the cohort that is asked the requests.
      groups: numbers of the reports' groups, all different.
      reports: the reports, decoded.
      answers: number of the reports that are answers.
      refusals: reasons of the others.
      charged: sum of the reports' charges, nano-nats.
      spent: highest of the totals that they state, nano-nats.
      digests: of the requests that the reports answer.
      accepted: the acknowledgements, if all of them are new.
    """

    cohort: int
    groups: tuple[int, ...]
    reports: tuple[Report, ...]
    answers: int
    refusals: tuple[Reason, ...]
    charged: int
    spent: int
    digests: tuple[bytes, ...]
    accepted: tuple[tuple[bytes, AckStatus], ...]


class Intake:
    """Checks and enters the reports of one round.

    `examine` is pure; `enter` counts. Between the two a service makes the report durable; a report
    is entered once, so the caller enters only what its store accepted as new.
    """

    def __init__(self, round_: Round, accounts: Accounts) -> None:
        self._round = round_
        self._tables = tuple(SymbolTable(group) for group in round_.groups)
        cohorts = dict.fromkeys(group.cohort for group in round_.groups)
        numbers = {cohort: number for number, cohort in enumerate(cohorts)}
        self._cohort_places = tuple(Places(cohort.members) for cohort in cohorts)
        self._cohorts = tuple(numbers[group.cohort] for group in round_.groups)
        self._heard = tuple(bytearray(cohort.size) for cohort in cohorts)
        self._places = tuple(self._cohort_places[cohort] for cohort in self._cohorts)
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

    def owes_all(self, ordinal: int) -> bool:
        """Return whether this user is a member of every group and was not heard yet."""
        if len(self._cohort_places) != 1:  # members of one group are not all in the others
            return False
        place = self._cohort_places[0].of(ordinal)
        return place is not None and not self._heard[0][place]

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

    def check_message(self, reports_data: tuple[bytes, ...]) -> CheckedMessage | None:
        """Check the reports of a message together, for any user.

        Args:
          reports_data: the reports without their sequence numbers (see `without_sequence`).

        Returns:
          None: they have to be checked one by one, since one is wrong or has a sequence number
          still, or they are not to different requests of this round to one cohort.
        """
        try:
            reports = tuple(map(decoded, reports_data))
        except RemoteProtocolError:
            return None
        groups = tuple(self._groups.get(report.request_digest, -1) for report in reports)
        cohorts = {self._cohorts[group] for group in groups if group >= 0}
        if len(cohorts) != 1 or min(groups) < 0 or len(set(groups)) < len(groups):
            return None
        if any(report.sequence for report in reports):
            return None
        if not all(map(self._plausible, reports, groups)):
            return None
        refusals = tuple(r.outcome.reason for r in reports if isinstance(r.outcome, Refusal))
        return CheckedMessage(
            cohort=cohorts.pop(),
            groups=groups,
            reports=reports,
            answers=len(reports) - len(refusals),
            refusals=refusals,
            charged=sum(report.charged_nano_nats for report in reports),
            spent=max(report.spent_nano_nats for report in reports),
            digests=tuple(report.request_digest for report in reports),
            accepted=tuple((report.request_digest, AckStatus.ACCEPTED) for report in reports),
        )

    def place(self, message: CheckedMessage, ordinal: int) -> int | None:
        """Return the position of a user in the cohort of a message; None: it is not a member."""
        return self._cohort_places[message.cohort].of(ordinal)

    def add_message(self, message: CheckedMessage, place: int) -> int:
        """Count the reports of a message; what is settled already is left as it is.

        Args:
          message: the reports.
          place: position of their user in the message's cohort.

        Returns:
          The number of reports that were counted.
        """
        heard = self._heard[message.cohort]
        if heard[place]:
            arrivals = zip(message.groups, message.reports, strict=True)
            return sum(self._add(group, place, report) for group, report in arrivals)
        heard[place] = 1
        for group, report in zip(message.groups, message.reports, strict=True):
            self._write(group, place, report)
        self._open -= len(message.groups)
        account = self._accounts[message.groups[0]]
        account.confirm(place, message.charged, message.spent)
        return len(message.groups)

    def add_equal(self, data: bytes, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Check and count a report that many users sent, as `examine` and `add` do.

        Args:
          data: the report.
          ordinals: the users', each once.

        Returns:
          The ordinals of those whose report was counted now.
        """
        try:
            report = decoded(data)
        except RemoteProtocolError:
            return ordinals[:0]
        group = self._groups.get(report.request_digest)
        if group is None or not self._plausible(report, group):
            return ordinals[:0]
        table, members = self._tables[group], self._places[group]
        places = table.unsettled(members.among(ordinals))
        if isinstance(report.outcome, Refusal):
            table.refuse_equal(places, report.outcome.reason)
        else:
            table.write_equal(places, report.outcome, reused=not report.charged_nano_nats)
        self._open -= len(places)
        np.frombuffer(self._heard[self._cohorts[group]], np.uint8)[places] = 1
        account = self._accounts[group]
        account.confirm_equal(places, report.charged_nano_nats, report.spent_nano_nats)
        return members.at(places)

    def add(self, arrival: Arrival) -> bool:
        """Count a report and return True; what is settled already is left as it is."""
        return self._add(arrival.group, arrival.place, arrival.report)

    def _add(self, group: int, place: int, report: Report) -> bool:
        if self._tables[group].settled(place):
            return False
        self._heard[self._cohorts[group]][place] = 1
        self._write(group, place, report)
        self._open -= 1
        self._accounts[group].confirm(place, report.charged_nano_nats, report.spent_nano_nats)
        return True

    def tallies(self) -> tuple[Tally, ...]:
        """Close the round."""
        return tuple(table.tally() for table in self._tables)

    def _write(self, group: int, place: int, report: Report) -> None:
        """Enter a report in the table of its group."""
        outcome = report.outcome
        if isinstance(outcome, Refusal):
            self._tables[group].refuse(place, outcome.reason)
        else:
            self._tables[group].write(place, outcome, reused=not report.charged_nano_nats)

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
        return partial(valid, randomizer)
    width, checked = randomizer.width, lru_cache(maxsize=1 << 12)(partial(valid, randomizer))
    return lambda symbol: len(symbol) == width and checked(symbol)  # no long symbol is kept
