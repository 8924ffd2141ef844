"""Requests of a round and the users that they go to."""

from __future__ import annotations

from dataclasses import dataclass, field

from askance_aggregator.studies.cohorts import Cohort
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.queries import Query
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Request and the users that it goes to.

    `payload` is what travels, `digest` its name. Groups whose users are asked more than one thing
    share their cohort. `leaf_key` is secret (`tallies.group_leaf_key`); None: the process that
    holds the group closes no round.
    """

    payload: bytes
    digest: bytes
    query: Query
    randomizer: Randomizer
    nano_nats: int
    cohort: Cohort
    leaf_key: bytes | None = field(repr=False)

    @property
    def salting_key(self) -> bytes:
        """The leaf key; raise InvalidParameter where this process does not know it."""
        if self.leaf_key is None:
            raise InvalidParameter("leaf_key: expected the group's, got None: it closes no round")
        return self.leaf_key

    @property
    def population(self) -> int:
        """End of the range that the ordinals of the study's users are in; 0 begins it."""
        return self.cohort.permutation.end


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A batch on its way to the devices.

    It closes when every member of every group has answered, refused, or is known to be absent.
    `epoch` is the index of the epoch that it belongs to; 0: its study collects once.
    """

    number: int
    study: SignedStudy
    study_digest: bytes
    groups: tuple[Group, ...]
    epoch: int = 0
