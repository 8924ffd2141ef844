"""The private learner of PARITY: A, and A* that repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_aggregator.sampling import Words, happens
from askance_client.accounting import NANO_NATS_PER_NAT, charge
from askance_client.errors import InvalidParameter
from askance_papers.curator.parity.examples import ParityExamples
from askance_papers.curator.parity.gf2 import solve
from askance_papers.curator.parity.keeping import (
    Keeping,
    costs_at_most,
    likelihood_ratio,
    sharper_keeping,
)
from askance_papers.curator.parity.sizes import runs_needed
from askance_simulation.populations.labelled_bits import Parity

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class PrivateParity:
    """Releases a parity that the examples fit, or nothing.

    Privacy: pure epsilon-DP, replace-one, on every data set: `likelihood_ratio(keep, runs)` is held
    against e^epsilon with integers when this is made, and every coin is exact. What is released
    is the answer; how long it took to find is not, and depends on the data.
    Utility: on `examples_needed` labels of a parity, from any distribution of x, it fails with
    probability at most beta (A*; `runs_needed`), A with at most 1/2 + beta.

    Args:
      epsilon: nats.
      runs: how often A is run, at most; the first answer is released.
      keep: p, the probability with which a run keeps an example.

    Raises:
      InvalidParameter: these runs with this p cost more than epsilon.

    Source: KLNRS08 section 3.2 (A, A*). Deviations: p, and k = ceil(log2(3 / beta)) runs.
    """

    epsilon: Fraction
    runs: int
    keep: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise InvalidParameter(
                "parity: expected examples to be kept with a probability between 0 and 1,"
                f" found {float(self.keep):g}"
            )
        if not costs_at_most(self.keep, self.runs, self.epsilon):
            raise InvalidParameter(
                f"parity: expected a loss of at most epsilon = {float(self.epsilon):g},"
                f" found {float(self.loss):.6g} for {self.runs} runs that keep an example with"
                f" probability {float(self.keep):g}"
            )

    @classmethod
    def once(cls, epsilon: Rational, keeping: Keeping = sharper_keeping) -> PrivateParity:
        """A: one run.

        `sharper_keeping` and `even_keeping` are both tanh(eps/2) for one run.

        Raises:
          InvalidParameter: no epsilon above 0, or one that this keeping passes.
        """
        budget = read_epsilon(epsilon)
        return cls(budget, 1, keeping(budget, 1))

    @classmethod
    def amplified(
        cls, epsilon: Rational, beta: Rational, keeping: Keeping = sharper_keeping
    ) -> PrivateParity:
        """A*: enough runs for a failure of at most beta, on enough examples.

        Raises:
          InvalidParameter: no epsilon above 0, no beta between 0 and 1, or a keeping that passes.
        """
        budget, runs = read_epsilon(epsilon), runs_needed(read_probability(beta, "beta"))
        return cls(budget, runs, keeping(budget, runs))

    @property
    def loss(self) -> Fraction:
        """Proven privacy loss in nats, rounded up to nano-nats; at most epsilon."""
        ratio = likelihood_ratio(self.keep, self.runs)
        return Fraction(charge(ratio.numerator, ratio.denominator), NANO_NATS_PER_NAT)

    @property
    def event(self) -> Pure:
        """A release, for an accountant."""
        return Pure(self.loss)

    def release(self, examples: ParityExamples, words: Words) -> Parity | None:
        """A parity that fits what was kept of the examples; None: nothing was found."""
        for _ in range(self.runs):
            found = self._run(examples, words)
            if found is not None:
                return found
        return None

    def _run(self, examples: ParityExamples, words: Words) -> Parity | None:
        if happens(words, _HALF, 1)[0]:
            return None
        kept = happens(words, self.keep, len(examples))
        solutions = solve(examples.rows[kept], examples.d)
        return None if solutions is None else Parity(tuple(solutions.draw(words).tolist()))
