"""Population of a study that asks tagged devices only, as its analyst signs it.

What is signed is a commitment, as a parameter of the study under a name that no learner has (see
`keep`): devices pass it on unread, and devices of earlier versions answer such a study too. An
aggregator of an earlier version refuses it, so it never asks all devices instead.
"""

from __future__ import annotations

from typing import Any

from askance_aggregator.store import TaggedPopulation
from askance_aggregator.store.tagged_population import SALT_BYTES
from askance_client.errors import InvalidParameter
from askance_client.messages import StudyTerms
from askance_client.printable import value_text

COMMITMENT = "population.commitment"
_TAGS, _SALT = "tags", "salt"


def check_population(terms: StudyTerms, population: TaggedPopulation | None) -> None:
    """Check what was sent beside a study against the commitment that the study signs."""
    signed = dict(terms.parameters).get(COMMITMENT)
    if signed is None and population is None:
        return
    if signed is None:
        raise InvalidParameter(
            f"population: expected no tags, because the study signs none, got {population}"
        )
    if population is None:
        raise InvalidParameter(
            "population: expected the tags and the salt of the commitment that the study signs,"
            " got none"
        )
    if population.commitment.hex() != signed:
        raise InvalidParameter(
            "population: expected the tags and the salt of the commitment that the study signs,"
            f" {value_text(signed)}, got {population}, whose commitment is"
            f" {population.commitment.hex()}"
        )


def signed_parameters(population: TaggedPopulation | None) -> dict[str, str]:
    """Return the signed parameters of a population; none for all devices."""
    return {} if population is None else {COMMITMENT: population.commitment.hex()}


def population_facts(population: TaggedPopulation | None, devices: int) -> dict[str, Any]:
    """Return what a result or a plan states of a population; nothing for all devices.

    `devices` is the number of devices that have its tags.
    """
    if population is None:
        return {}
    return {"population": {_TAGS: list(population.tags), "devices": devices}}


def population_json(population: TaggedPopulation) -> dict[str, Any]:
    """Return tags and salt as one JSON object, which an export has."""
    return {_TAGS: list(population.tags), _SALT: population.salt.hex()}


def population_of_json(found: Any) -> TaggedPopulation:
    """Read tags and salt from an export, or raise InvalidParameter."""
    tags, salt = (found.get(_TAGS), found.get(_SALT)) if isinstance(found, dict) else (None, None)
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidParameter(f"population: expected a list of tags, got {value_text(tags)}")
    try:
        read = bytes.fromhex(str(salt))
    except ValueError:
        raise InvalidParameter(
            f"population: expected a salt of {SALT_BYTES} bytes in hexadecimal,"
            f" got {value_text(salt)}"
        ) from None
    return TaggedPopulation(tuple(tags), read)
