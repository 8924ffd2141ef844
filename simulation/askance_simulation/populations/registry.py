"""The generated populations by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from askance_aggregator.names import unknown_name
from askance_client.errors import InvalidParameter
from askance_simulation.populations.categories import categories
from askance_simulation.populations.clusters import clusters
from askance_simulation.populations.conjunctions import conjunctions
from askance_simulation.populations.correlated import correlated_bits, latent_classes
from askance_simulation.populations.gaussians import gaussian_mixture
from askance_simulation.populations.halfspaces import halfspaces
from askance_simulation.populations.labelled_bits import (
    decision_lists,
    disjunctions,
    literal_conjunctions,
)
from askance_simulation.populations.masked_parity import masked_parity
from askance_simulation.populations.numbers import numbers
from askance_simulation.populations.parities import parities
from askance_simulation.populations.plane import plane
from askance_simulation.populations.population import Population
from askance_simulation.populations.traits import traits
from askance_simulation.populations.unit_vectors import unit_vectors
from askance_simulation.populations.words import words
from askance_simulation.randomness.seeds import Seed


@dataclass(frozen=True, slots=True)
class PopulationEntry:
    """Entry of a population: name, summary, whole-number parameters, and its maker.

    The maker is called with size, seed and the parameters.
    """

    name: str
    summary: str
    parameters: tuple[tuple[str, int], ...]
    build: Callable[..., Population]


POPULATIONS = {
    entry.name: entry
    for entry in (
        PopulationEntry(
            "masked-parity",
            "uniform (x, i, b) labelled by a random MASKED-PARITY concept",
            (("d", 8),),
            masked_parity,
        ),
        PopulationEntry(
            "conjunctions",
            "uniform bits labelled by a random monotone conjunction",
            (("d", 8), ("relevant", 2)),
            conjunctions,
        ),
        PopulationEntry(
            "categories",
            "one category a user, by Zipf's law, which may turn by cells from round to round",
            (("cells", 16), ("turn", 0)),
            categories,
        ),
        PopulationEntry(
            "literal-conjunctions",
            "uniform bits labelled by a random conjunction with negations",
            (("d", 8), ("relevant", 2)),
            literal_conjunctions,
        ),
        PopulationEntry(
            "disjunctions",
            "uniform bits labelled by a random disjunction with negations",
            (("d", 8), ("relevant", 2)),
            disjunctions,
        ),
        PopulationEntry(
            "decision-lists",
            "uniform bits labelled by a random decision list",
            (("d", 8), ("relevant", 2)),
            decision_lists,
        ),
        PopulationEntry("traits", "two groups with traits of every kind", (), traits),
        PopulationEntry(
            "plane", "numbers that go together, an outcome near a plane", (("d", 3),), plane
        ),
        PopulationEntry(
            "halfspaces",
            "numbers on two sides of a plane, with a margin (hundredths)",
            (("d", 3), ("gap", 10)),
            halfspaces,
        ),
        PopulationEntry(
            "clusters", "numbers in clumps that lie apart", (("clumps", 3), ("d", 2)), clusters
        ),
        PopulationEntry(
            "words",
            "one of a few words of many bits a user, by Zipf's law",
            (("width", 16), ("words", 64)),
            words,
        ),
        PopulationEntry(
            "parities", "uniform bits labelled by a random parity", (("d", 8),), parities
        ),
        PopulationEntry(
            "correlated-bits",
            "a chain of bits, their neighbours' correlation and the share of ones in hundredths",
            (("d", 8), ("correlation", 50), ("ones", 50)),
            correlated_bits,
        ),
        PopulationEntry(
            "latent-classes",
            "bits that agree with one of two classes, the label; chances in hundredths",
            (("d", 8), ("agreement", 80), ("second", 50)),
            latent_classes,
        ),
        PopulationEntry(
            "gaussian-mixture",
            "numbers, Gaussian about centres that lie apart; their deviation in 512ths",
            (("clumps", 3), ("d", 2), ("spread", 20)),
            gaussian_mixture,
        ),
        PopulationEntry(
            "unit-vectors",
            "vectors of length one that lean to one side, by hundredths",
            (("d", 8), ("lean", 50)),
            unit_vectors,
        ),
        PopulationEntry("numbers", "a bell-shaped number in [0, 1]", (), numbers),
    )
}


def entry(name: str) -> PopulationEntry:
    """Return the generated population of that name.

    Raises:
      InvalidParameter: there is none.
    """
    if name not in POPULATIONS:
        raise unknown_name("population", name, sorted(POPULATIONS))
    return POPULATIONS[name]


def build(name: str, users: int, seed: Seed, parameters: Mapping[str, int]) -> Population:
    """Make `users` users of the population of that name.

    Raises:
      InvalidParameter: no such population or parameter, or a parameter out of range.
    """
    chosen = entry(name)
    known = [key for key, _ in chosen.parameters]
    for key in parameters:
        if key not in known:
            raise InvalidParameter(
                f"{name}: expected parameters {', '.join(known) or 'none'}, found {key!r}"
            )
    return chosen.build(users, seed, **parameters)
