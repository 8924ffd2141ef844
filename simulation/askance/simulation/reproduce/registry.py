"""The reproductions by name; a module each, imported when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from askance.client.errors import InvalidParameter
from askance.simulation.reproduce.reproduction import Reproduction, Setting


@dataclass(frozen=True, slots=True)
class Entry:
    """A reproduction that can be asked for.

    Args:
      module: below this package; it has `reproduce(setting) -> Reproduction`.
      summary: a line for `--list`.
    """

    name: str
    module: str
    summary: str

    def reproduce(self, setting: Setting) -> Reproduction:
        """Measures it."""
        module = import_module(f"askance.simulation.reproduce.{self.module}")
        found: Reproduction = module.reproduce(setting)
        return found


_ENTRIES: tuple[Entry, ...] = (
    Entry(
        "theorem-3.7",
        "theorem_3_7",
        "KLNRS08 Theorem 3.7: the agnostic learner's examples, as proved and as measured",
    ),
    Entry("composition", "composition", "DRV10 section III: k releases, by every accountant"),
    Entry(
        "parity", "parity", "KLNRS08 section 3.2: what A and A* cost, exactly, and how often fail"
    ),
    Entry(
        "boosting", "boosting", "DRV10 Figure 1: boosting for queries, beside what it competes with"
    ),
    Entry("logistic-figure-1", "logistic_figure_1", "CM08 Figure 1: its own example, by n"),
    Entry("logistic-figure-2", "logistic_figure_2", "CM08 Figure 2: errors on four data sets"),
    Entry("logistic-figure-3", "logistic_figure_3", "CM08 Figure 3: errors by epsilon"),
    Entry("logistic-figure-4", "logistic_figure_4", "CM08 Figure 4: learning curves"),
)

REPRODUCTIONS: Mapping[str, Entry] = MappingProxyType({one.name: one for one in _ENTRIES})


def find(name: str) -> Entry:
    """The reproduction of this name.

    Raises:
      InvalidParameter: there is none.
    """
    if name not in REPRODUCTIONS:
        known = ", ".join(REPRODUCTIONS)
        raise InvalidParameter(f"reproduction: expected one of {known}, found {name!r}")
    return REPRODUCTIONS[name]
