"""PARITY, learned privately: a hidden r in {0, 1}^d from examples (x, <r, x> mod 2).

Theory of operation: the examples are linear equations over GF(2). One run A gives up with
probability 1/2 before it looks at anything, keeps each equation with probability p, solves what it
kept and gives a uniform solution, or gives up where there is none. One equation more halves a
solution space or does nothing to it; only to contradict is drastic, and that hides behind the
coin of 1/2. So A is private on *every* data set, those that no parity fits included. A* runs A k
times and takes the first answer.

- `gf2`: bit-packed elimination. `examples`: what is learned from, checked and packed.
- `keeping`: what p costs, decided with integers, and the largest p that a budget allows.
- `sizes`: how many examples suffice. `learner`: the mechanism. `law`: its output distribution,
  exactly, for tiny instances.
"""

from askance_papers.curator.parity.examples import ParityExamples
from askance_papers.curator.parity.keeping import (
    Keeping,
    even_keeping,
    likelihood_ratio,
    printed_keeping,
    sharper_keeping,
)
from askance_papers.curator.parity.law import law
from askance_papers.curator.parity.learner import PrivateParity
from askance_papers.curator.parity.sizes import examples_needed, runs_needed
from askance_simulation.populations.labelled_bits import Parity

__all__ = [
    "Keeping",
    "Parity",
    "ParityExamples",
    "PrivateParity",
    "even_keeping",
    "examples_needed",
    "law",
    "likelihood_ratio",
    "printed_keeping",
    "runs_needed",
    "sharper_keeping",
]
