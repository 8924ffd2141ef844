"""Users per second of multi-freq-ldpy: JSON on stdout; argv is the effort and the questions.

Run in an environment of its own as `peers.multi_freq_ldpy.speed` (see `peers.questions`). Its
clients are compiled when they are first called; that is not timed. It estimates frequencies only.
Errors are those of its formula, before it clips and renormalises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from peers.measuring import Shares, tell
from peers.multi_freq_ldpy.accuracy import Decode, Draw, Listener, listening, protocols
from peers.questions import EPS, Answer, Question, speeds

HASH_CELLS = 64  # up to here: local hashing hashes every cell for every user


def offered(question: Question) -> Iterator[tuple[str, Answer]]:
    """Yield every protocol with one report per user."""
    if question.mean:
        return
    listener = listening()
    for name, (draw, decode) in protocols().items():
        if question.values <= HASH_CELLS or name not in ("BLH", "OLH"):
            yield name, asked(draw, decode, listener, question.values)


def asked(draw: Draw, decode: Decode, listener: Listener, k: int) -> Answer:
    """Make what asks all users by a protocol."""

    def answer(values: list[int]) -> Shares:
        decode([draw(value, k, EPS) for value in values], k, EPS)
        return listener.raw

    return answer


if __name__ == "__main__":
    tell("multi-freq-ldpy", speeds(offered, sys.argv[1:]))
