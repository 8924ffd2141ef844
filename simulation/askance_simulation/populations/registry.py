"""Catalogue of generated populations: found by name, for the command line.

A population is listed by the decorator `catalogued`, in its own module; importing the package
lists all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from askance_aggregator.names import unknown_name
from askance_client.errors import InvalidParameter
from askance_simulation.randomness.seeds import Seed

if TYPE_CHECKING:
    from askance_simulation.populations.population import Population

_Maker = TypeVar("_Maker", bound="Callable[..., Population]")


@dataclass(frozen=True, slots=True)
class PopulationEntry:
    """Entry of a population: name, summary, whole-number parameters, and its maker.

    The maker is called with size, seed and the parameters.
    """

    name: str
    summary: str
    parameters: tuple[tuple[str, int], ...]
    build: Callable[..., Population]


_CATALOGUE: dict[str, PopulationEntry] = {}
POPULATIONS: Mapping[str, PopulationEntry] = MappingProxyType(_CATALOGUE)
"""Generated populations by name."""


def catalogued(name: str, summary: str) -> Callable[[_Maker], _Maker]:
    """List a population under `name`; what its maker takes after size and seed are its parameters.

    Args:
      name: name on the command line.
      summary: the records, in a line.

    Raises:
      InvalidParameter: the name is taken.
    """
    if name in _CATALOGUE:
        raise InvalidParameter(f"the population {name!r} is registered already")

    def listed(maker: _Maker) -> _Maker:
        _, _, *settings = signature(maker).parameters.values()
        parameters = tuple((setting.name, setting.default) for setting in settings)
        _CATALOGUE[name] = PopulationEntry(name, summary, parameters, maker)
        return maker

    return listed


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
