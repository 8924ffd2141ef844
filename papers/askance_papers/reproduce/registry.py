"""The reproductions by name; a module each, imported when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from askance_aggregator.names import unknown_name
from askance_papers.reproduce.reproduction import Reproduction, Setting


@dataclass(frozen=True, slots=True)
class ReproductionEntry:
    """A reproduction that can be asked for.

    Args:
      module: below this package; it has `reproduce(setting) -> Reproduction`.
      summary: a line for `--list`.
    """

    name: str
    module: str
    summary: str

    def reproduce(self, setting: Setting) -> Reproduction:
        """Measure it."""
        module = import_module(f"askance_papers.reproduce.{self.module}")
        found: Reproduction = module.reproduce(setting)
        return found


_ENTRIES: tuple[ReproductionEntry, ...] = (
    ReproductionEntry(
        "theorem-3", "notes.theorem_3", "notes, Theorem 3: the Laplace mechanism's loss and tail"
    ),
    ReproductionEntry(
        "theorem-5", "notes.theorem_5", "notes, Theorem 5: conjunctions, users and failures by d"
    ),
    ReproductionEntry(
        "theorem-5.1", "klnrs08.theorem_5_1", "KLNRS08 Theorem 5.1: two rounds beside one, by d"
    ),
    ReproductionEntry(
        "theorem-6", "notes.theorem_6", "notes, Theorem 6: from samples, at the theorem's size"
    ),
    ReproductionEntry(
        "theorem-7", "notes.theorem_7", "notes, Theorem 7: with a curator, in disjoint parts"
    ),
    ReproductionEntry(
        "theorem-8", "notes.theorem_8", "notes, Theorem 8: with flipped labels, up to eta = 0.4"
    ),
    ReproductionEntry(
        "masked-parity",
        "klnrs08.masked_parity",
        "KLNRS08 section 5.1: users of both variants, by d",
    ),
    ReproductionEntry(
        "lemma-4.2",
        "klnrs08.lemma_4_2",
        "KLNRS08 Lemma 4.2: the tail of a mean of Laplace variables",
    ),
    ReproductionEntry(
        "lemma-4.3", "klnrs08.lemma_4_3", "KLNRS08 Lemma 4.3: users for one query, by epsilon"
    ),
    ReproductionEntry(
        "lemma-4.4", "klnrs08.lemma_4_4", "KLNRS08 Lemma 4.4: one round of devices, by queries"
    ),
    ReproductionEntry(
        "lemma-4.5", "klnrs08.lemma_4_5", "KLNRS08 Lemma 4.5: two rounds of devices, by queries"
    ),
    ReproductionEntry(
        "theorem-4.8",
        "klnrs08.theorem_4_8",
        "KLNRS08 Theorem 4.8: from queries to devices and back",
    ),
    ReproductionEntry(
        "corollary-4.6",
        "klnrs08.corollary_4_6",
        "KLNRS08 Corollary 4.6: PARITY by queries, by devices and with a curator",
    ),
    ReproductionEntry(
        "local-vs-central", "notes.local_vs_central", "users against epsilon, in both models"
    ),
    ReproductionEntry(
        "theorem-3.7",
        "klnrs08.theorem_3_7",
        "KLNRS08 Theorem 3.7: the agnostic learner's examples, as proved and as measured",
    ),
    ReproductionEntry(
        "remark-3.7",
        "klnrs08.remark_3_7",
        "KLNRS08 remark after Theorem 3.7: examples by VC dimension and domain",
    ),
    ReproductionEntry(
        "composition", "drv10.composition", "DRV10 section III: k releases, by every accountant"
    ),
    ReproductionEntry(
        "parity",
        "klnrs08.parity",
        "KLNRS08 section 3.2: what A and A* cost, exactly, and how often fail",
    ),
    ReproductionEntry(
        "remark-3.8",
        "klnrs08.remark_3_8",
        "KLNRS08 remark after Theorem 3.8: PARITY with a test set, as beta falls",
    ),
    ReproductionEntry(
        "boosting",
        "drv10.boosting",
        "DRV10 Figure 1: boosting for queries, beside what it competes with",
    ),
    ReproductionEntry(
        "lemma-iii.2",
        "drv10.lemma_iii_2",
        "DRV10 Lemma III.2: the expected loss of a pure release, enumerated",
    ),
    ReproductionEntry(
        "theorem-iii.3",
        "drv10.theorem_iii_3",
        "DRV10 Theorems III.1 and III.3: with deltas, and budgets that differ",
    ),
    ReproductionEntry(
        "claim-iv.2",
        "drv10.claim_iv_2",
        "DRV10 Claim IV.2: neighbours' query distributions, enumerated",
    ),
    ReproductionEntry(
        "lemma-v.1",
        "drv10.lemma_v_1",
        "DRV10 Lemma V.1: from sampled queries to most of them, by synopsis size",
    ),
    ReproductionEntry(
        "theorem-v.2",
        "drv10.theorem_v_2",
        "DRV10 Theorems V.2 and V.4: arbitrary queries by search, and boosted",
    ),
    ReproductionEntry(
        "theorem-v.3",
        "drv10.theorem_v_3",
        "DRV10 Theorems V.3 and V.5: counting queries by a fit, and boosted",
    ),
    ReproductionEntry(
        "logistic-sensitivity",
        "cm08.sensitivity",
        "CM08 Lemma 1 and Corollary 2: how far one row moves a minimiser",
    ),
    ReproductionEntry(
        "logistic-losses",
        "cm08.losses",
        "CM08 Theorem 3: objective perturbation of other convex losses",
    ),
    ReproductionEntry(
        "logistic-utility",
        "cm08.utility",
        "CM08 Lemma 3 and Theorem 4: what privacy costs, in loss and in examples",
    ),
    ReproductionEntry("logistic-figure-1", "cm08.figure_1", "CM08 Figure 1: its own example, by n"),
    ReproductionEntry(
        "logistic-figure-2", "cm08.figure_2", "CM08 Figure 2: errors on four data sets"
    ),
    ReproductionEntry("logistic-figure-3", "cm08.figure_3", "CM08 Figure 3: errors by epsilon"),
    ReproductionEntry("logistic-figure-4", "cm08.figure_4", "CM08 Figure 4: learning curves"),
)

REPRODUCTIONS: Mapping[str, ReproductionEntry] = MappingProxyType(
    {one.name: one for one in _ENTRIES}
)


def find(name: str) -> ReproductionEntry:
    """Return the reproduction of this name."""
    if name not in REPRODUCTIONS:
        raise unknown_name("reproduction", name, REPRODUCTIONS)
    return REPRODUCTIONS[name]
