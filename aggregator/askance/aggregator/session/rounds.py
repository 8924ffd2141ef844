"""What a fleet is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.client.messages import SignedStudy
from askance.client.queries import Query
from askance.client.randomizers import Randomizer


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One request and the users it goes to.

    `payload` is what travels, `digest` its name; `members` are the ordinals asked, sorted,
    shape (n,), dtype int64; `population` is how many users there are in all.
    """

    payload: bytes
    digest: bytes
    query: Query
    randomizer: Randomizer
    nano_nats: int
    members: NDArray[np.int64]
    population: int


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A batch on its way to the devices. It closes when every member of every group has answered,
    refused, or is known to be absent."""

    number: int
    study: SignedStudy
    study_digest: bytes
    groups: tuple[Group, ...]
