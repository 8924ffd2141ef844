"""A study made ready for an aggregator: signed so that its learner can be built again there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import sign_study
from askance_aggregator.families import best_for
from askance_aggregator.learners import find
from askance_aggregator.store import TaggedPopulation
from askance_aggregator.store.tagged_population import SALT_BYTES
from askance_aggregator.studies.keep import UNLIMITED, Keep
from askance_aggregator.studies.population import signed_parameters
from askance_aggregator.studies.schedule import START
from askance_aggregator.studies.study import Study
from askance_aggregator.study_options import DEFAULT_DAYS
from askance_client.errors import InvalidParameter
from askance_client.messages import Repeat, SignedStudy, StudyTerms

_NONCE_BYTES = 16
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Every:
    """Wish of an analyst to collect again: the first epoch is that of the day of signing.

    There are `epochs` of `days` each; both are 1 or more.
    """

    days: int
    epochs: int

    def from_day(self, day: int) -> Repeat:
        """Return the epochs that begin with that of a day, since 1970, UTC."""
        return Repeat(self.days, self.epochs, day // self.days)


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """A study, and how it is to be run.

    Args:
      study: learner, schema and budget.
      days: number of days after which devices refuse it; one that repeats ends with its last epoch.
      every: how often it collects again; None: it collects once.
      keep: how long the aggregator keeps its reports and results.
      start_s: time before which no user is asked, in seconds since 1970, UTC; days and epochs are
        counted from it. 0: at once.
      tags: that the devices which are asked have, all of them; empty: all devices.
    """

    study: Study
    days: int = DEFAULT_DAYS
    every: Every | None = None
    keep: Keep = UNLIMITED
    start_s: int = 0
    tags: tuple[str, ...] = ()

    def terms(
        self, nonce: bytes, now_s: int, population: TaggedPopulation | None = None
    ) -> StudyTerms:
        """Return what would be signed now (see `sign_submission`).

        Signed with the fields that may be asked about are the names of their columns, for results.
        """
        study = self.study
        if self.days < 1:
            raise InvalidParameter(f"days: expected 1 or more, got {self.days}")
        if study.design is not best_for:
            raise InvalidParameter(
                "study: expected the usual choice of randomizers, found a design of its own, which"
                " an aggregator does not have"
            )
        begin_s = max(now_s, self.start_s)
        repeat = None if self.every is None else self.every.from_day(begin_s // _DAY_S)
        end_s = begin_s + self.days * _DAY_S
        if repeat is not None:
            end_s = repeat.indices.stop * repeat.every_days * _DAY_S
        terms = study.terms(nonce=nonce, expires_unix_s=end_s, repeat=repeat)
        entry = find(study.learner.name)
        spelled = {
            **entry.spell(study.learner, study.schema),
            **self.keep.parameters,
            **signed_parameters(population),
        }
        if self.start_s > now_s:
            spelled[START] = str(self.start_s)
        parameters = tuple(sorted(spelled.items()))
        return replace(
            terms, schema=study.schema, parameters=parameters, distribution=entry.distribution
        )


def sign_submission(
    study: Study | StudyDefinition,
    key: Ed25519PrivateKey,
    *,
    now_s: Callable[[], int] = system_now_s,
    nonce: Callable[[int], bytes] = secrets.token_bytes,
    population: TaggedPopulation | None = None,
) -> SignedStudy:
    """The study as it is submitted; each signing makes a study of its own.

    Args:
      study: a study, or its definition.
      key: the analyst's signing key.
      now_s: clock, whole seconds since 1970, UTC.
      nonce: returns a given number of random bytes.
      population: devices of the definition's tags, which are sent beside the study; signed is a
        commitment to them. None: all.
    """
    definition = StudyDefinition(study) if isinstance(study, Study) else study
    return sign_study(definition.terms(nonce(_NONCE_BYTES), now_s(), population), key)


def tagged_population(
    tags: Iterable[str], random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> TaggedPopulation | None:
    """Return the devices of some tags, with a new salt; None, all devices, without a tag."""
    wanted = tuple(tags)
    return TaggedPopulation.of(wanted, random_bytes(SALT_BYTES)) if wanted else None
