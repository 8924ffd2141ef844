"""Number of sampled queries that carries from them to most queries (DRV10 Lemma V.1)."""

from __future__ import annotations

from math import ceil, log, log1p

from askance_client.errors import InvalidParameter


def queries_for(synopses: int, beta: float, advantage: float) -> int:
    """Number of queries to draw, so that a synopsis that fits them fits most.

    Except with probability beta over the draws, every one of the synopses that is within lambda on
    all drawn queries is within lambda on queries of probability 1/2 + eta or more, for any lambda
    and any distribution. A synopsis that is not has a chance below (1/2 + eta)^k to fit k draws;
    this is the least k for which all of them together have beta.

    Args:
      synopses: number of synopses there can be: 2^m of m bits, 1 or more.
      beta: above 0, below 1.
      advantage: eta, 0 or more and below 1/2.

    Raises:
      InvalidParameter: an argument outside its range.

    Source: DRV10 Lemma V.1, whose 2 (ln(1/beta) + m)/(1 - 2 eta) it improves on: ln synopses
      instead of m = log2 synopses, and ln(1/(1/2 + eta)) instead of 1/2 - eta.
    """
    if synopses < 1 or not 0 < beta < 1 or not 0 <= advantage < 0.5:
        raise InvalidParameter(
            "generalisation: expected 1 synopsis or more, 0 < beta < 1 and 0 <= advantage < 1/2,"
            f" got {synopses}, {beta:g} and {advantage:g}"
        )
    return max(1, ceil((log(synopses) - log(beta)) / -log1p(advantage - 0.5)))
