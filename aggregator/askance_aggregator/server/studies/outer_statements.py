"""Outer guarantee at the server: the account of all releases, and what a result states of it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from askance_aggregator.amplification import Curve, curve
from askance_aggregator.amplification.account import OuterAccount, TallyRelease
from askance_aggregator.amplification.accountant import local_epsilon
from askance_aggregator.amplification.atoms import ALONE, MOST_CHOICES, Atoms
from askance_aggregator.amplification.ends import local_curve
from askance_aggregator.amplification.outer import DELTA, LIARS, delta_for
from askance_aggregator.encoding import encode_randomizer
from askance_aggregator.store import KeptAccount, Store
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.outer import EarlierAnswers, outer_json, outer_series_json
from askance_client.codec import parse
from askance_client.codec.randomizers import decode_randomizer
from askance_client.errors import StoreError
from askance_client.messages import StudyTerms
from askance_client.randomizers import Randomizer
from askance_protos.v1 import randomizer_pb2

_LOGGER = logging.getLogger(__name__)
CURVES_VERSION = 1
"""Of the accountant's curves: raised when a bound is corrected, so that no earlier one stays."""
ACCOUNT_VERSION = 2
"""Of the account's rules and of its state: raised likewise, and all releases are entered anew."""
LEAST_ANSWERS = 64
"""Fewer honest answers have the local epsilon here: no curve is computed, and little is lost."""
_EVERY_S = 3_600.0  # unless woken: epochs of a study end without its end
_AGAIN_S = 60.0  # after a store that failed


class OuterCounter:
    """Counts what the store's releases cost each user; for one thread, but for `wake`.

    The account is the store's: one for all replicas and starts. A counter goes on from what is kept
    there, and replaces it only if no other one has meanwhile.
    """

    def __init__(self, store: Store, compute: Callable[[Randomizer, int], Curve] = curve) -> None:
        self._store = store
        self._compute = compute
        self._woken = threading.Event()
        self._curve = lru_cache(maxsize=1024)(self._stored_curve)

    def wake(self) -> None:
        """Let `run` count at once; for any thread."""
        self._woken.set()

    def run(self, stopping: threading.Event) -> None:
        """Count now and when woken, until `stopping` is set and `wake` called."""
        while not stopping.is_set():
            self._woken.clear()
            try:
                self.count()
            except StoreError as error:
                _LOGGER.error("the outer account waits for the store", exc_info=error)
                self._woken.wait(_AGAIN_S)
            except Exception as error:  # nothing of what was entered is kept
                _LOGGER.error("the outer account waits after an error", exc_info=error)
                self._woken.wait(_AGAIN_S)
            else:
                self._woken.wait(_EVERY_S)

    def count(self) -> int:
        """Enter the releases that came since, and return the number of those that were entered.

        After a round that has closed again all are entered anew: the account has its old users.

        Raises:
            StoreError: the store failed; what was kept before stays.
        """
        releases = self._store.outer
        terms, kept = releases.terms(), releases.account()
        entered = 0
        while terms is not None and kept is not None:
            account, counted, is_anew = self._going_on(kept, terms.delta)
            page = releases.releases(counted)
            if not page:
                break
            for _, release in page:
                randomizer = decode_randomizer(parse(randomizer_pb2.Randomizer, release.randomizer))
                account.enter(
                    TallyRelease(release.question, randomizer, release.users, release.again)
                )
            last = page[-1][0]
            figures = None
            if not releases.releases(last, most=1):
                figures = json.dumps(asdict(account.figures(self._store.population())))
            after = KeptAccount(_version(), last, account.releases, account.state())
            questions = account.take_questions()
            if releases.keep_account(kept, after, questions, figures, is_anew=is_anew):
                entered += len(page)
            kept = releases.account()  # of another counter, if that was first
        return entered

    def _going_on(self, kept: KeptAccount, delta: Fraction) -> tuple[OuterAccount, int, bool]:
        """Return the account to enter the next releases in, what it counts, and if it is anew."""
        account = OuterAccount(delta, curves=self._curve)
        releases = self._store.outer
        if kept.version == _version() and releases.number_up_to(kept.counted) == kept.releases:
            account.restore(kept.state, releases.question_state)
            return account, kept.counted, False
        return account, 0, True

    def _stored_curve(self, randomizer: Randomizer, answers: int) -> Curve:
        """Return a kept curve, or compute it and keep it."""
        if answers < LEAST_ANSWERS:
            return local_curve(local_epsilon(randomizer))
        encoded = encode_randomizer(randomizer).SerializeToString(deterministic=True)
        encoded = bytes([CURVES_VERSION]) + encoded
        kept = self._store.outer.curve(encoded, answers)
        if kept is not None:
            return Curve(*kept)
        made = self._compute(randomizer, answers)
        self._store.outer.keep_curve(encoded, answers, made.epsilons, made.deltas)
        return made


def _version() -> str:
    """Name the accountant whose state is kept: its rules, its curves, and the share of liars."""
    return f"{ACCOUNT_VERSION}.{CURVES_VERSION} {LIARS}"


def delta_of_results(store: Store) -> Fraction:
    """Return the delta that results state: the account's, and less if more devices are enrolled.

    Devices that a study does not ask count too: the rule is about a person of any study.
    """
    terms = store.outer.terms()
    return delta_for(max(store.population(), 1), DELTA if terms is None else terms.delta)


def earlier_answers(store: Store, request: bytes, answers: int) -> EarlierAnswers | None:
    """Return the smallest atom of a tally's question over all its releases so far.

    Users of the other releases count too: a reader of both who takes one tally from the other
    learns of those who are in one alone.

    Args:
        store: the account's.
        request: digest of the tally's request.
        answers: of the tally.

    Returns:
        None where a user's answer is from before the account, or was drawn a second time, so that
        it hides among none; or where tallies have too many values to follow what they may have led
        to.
    """
    releases = store.outer.of_question(request)
    if not releases:
        return None
    first = releases[0]
    atoms = Atoms(decode_randomizer(parse(randomizer_pb2.Randomizer, first.randomizer)))
    for release in releases:
        atoms.release(release.users, release.again)
    (own,) = (release for release in releases if release.request == request)
    found = atoms.held()
    choices = max(atom.choices for atom in found)
    if len(own.users) != answers or ALONE in found or choices >= MOST_CHOICES:
        return None
    return EarlierAnswers(
        min(atom.size for atom in found),
        choices,
        len(releases) - 1,
        own.question,
        own.users,
        atoms.users,
    )


def outer_statements(
    store: Store, study_digest: bytes, terms: StudyTerms, transcript: Transcript, epoch: int = 0
) -> dict[str, Any]:
    """Return the keys of a result that state a guarantee towards readers; none where none holds.

    Args:
        store: the account's, with the transcripts of earlier epochs.
        study_digest: of the study.
        terms: of the study.
        transcript: of the study, or of its epoch; the tallies' releases are in the account.
        epoch: index of the epoch; 0 for a study that collects once.
    """
    delta = delta_of_results(store)
    found = outer_json(transcript, terms.schema, delta, partial(earlier_answers, store))
    if terms.repeat is not None:
        earlier = [
            Transcript(store.log(study_digest, one)) for one in terms.repeat.indices if one < epoch
        ]
        found |= outer_series_json([*earlier, transcript], terms, delta)
    return found
