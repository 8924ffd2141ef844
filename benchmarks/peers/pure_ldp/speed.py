"""Users per second of pure-ldp: one JSON object on stdout; argv is the effort and the questions.

Run in an environment of its own as `peers.pure_ldp.speed` (see `peers.questions`). The users are
what its clients return, one call per user; there is no faster way through its public classes. It
estimates frequencies only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
from peers.measuring import Shares, tell
from peers.pure_ldp.accuracy import PROTOCOLS, collect, sides
from peers.questions import EPS, Answer, Question, speeds

HASH_CELLS = 64  # up to here: optimal local hashing hashes every cell for every user
FAST_CELLS = 1024  # up to here: 16,384 cells take half a minute to prepare and seconds to decode


def offered(question: Question) -> Iterator[tuple[str, Answer]]:
    """Yield every protocol for a known domain."""
    if question.mean:
        return
    most = {"optimal local hashing": HASH_CELLS, "fast local hashing": FAST_CELLS}
    for protocol in PROTOCOLS:
        if question.values <= most.get(protocol, question.values):
            yield protocol, asked(protocol, question.values)


def asked(protocol: str, k: int) -> Answer:
    """Make both sides of a protocol, and what asks all users by it."""
    client, server = sides(protocol, EPS, k)

    def answer(values: list[int]) -> Shares:
        collect(client, server, values)
        return np.asarray(server.estimate_all(range(k), suppress_warnings=True)) / len(values)

    return answer


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tell("pure-ldp", speeds(offered, sys.argv[1:]))
