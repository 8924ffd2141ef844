"""Operator's account of all that was ever released, per user.

Each frozen question's answers are counted by atoms, so that an answer is charged once however often
it is released, and the questions of each user compose by two bounds that hold whatever chose them.

Statements and proofs: docs/math/two_guarantees.md; its numbers are cited below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from math import ceil, exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.amplification.accountant import curve, local_epsilon
from askance_aggregator.amplification.atoms import ALONE, MOST_CHOICES, Atoms, InclusionAtom, Users
from askance_aggregator.amplification.ends import Curve
from askance_aggregator.amplification.loss_pairs import LossPair, pair_of
from askance_aggregator.amplification.outer import LIARS, delta_for, honest
from askance_aggregator.composition.events import log_inverse, outward
from askance_client.randomizers import Randomizer

_LITTLE = 0.99
"""Share of the local epsilon above which a user counts as one with that alone."""

_PICO = 10**12  # charges are whole pico-nats, rounded upward: sums are exact and have no order
_OCTAVES = range(-7, 8)  # budgets of the Renyi bound: 2^-7 .. 2^8 nats, an order per octave
_PER_OCTAVE = 8
_BITS = 8  # of a number of answers that curves are made for: others are rounded down, by Lemma 1


@dataclass(frozen=True, slots=True, eq=False)
class TallyRelease:
    """Tally of a frozen question that was published, with the users whose answers it counts.

    Args:
        question: digest of schema, query, randomizer and epoch.
        randomizer: of the question.
        users: ordinals, rising.
        unknown: those of them whose devices say that they had answered before, rising.
    """

    question: bytes
    randomizer: Randomizer
    users: Users
    unknown: Users


@dataclass(frozen=True, slots=True)
class OuterFigures:
    """Outer guarantees of all users of an account, over all its releases.

    Args:
        users: who are in any release.
        releases: tallies that were published.
        questions: frozen questions of these.
        delta: of one person over all releases, fixed at the first.
        epsilon: the largest of any user, nats, or None if no user has less than the local one.
        median: of the users, nats.
        local_only: users for whom the local epsilon alone is stated.
        late: True if more users are enrolled by now than the fixed delta was meant for.
    """

    users: int
    releases: int
    questions: int
    delta: float
    epsilon: float | None
    median: float | None
    local_only: int
    late: bool = False


def weight(number: int) -> Fraction:
    """Return w of question `number` (1 or more): all of them sum to 1."""
    octave = number.bit_length() - 1
    return Fraction(1, (1 << octave) * (octave + 1) * (octave + 2))


def _keep_nothing(question: bytes) -> None:
    """Have no state of any question."""


def rounded_answers(answers: int) -> int:
    """Return a number of answers rounded down to eight binary digits, which hides less."""
    shift = max(0, answers.bit_length() - _BITS)
    return answers >> shift << shift


class OuterAccount:
    """Outer guarantees of each user over all releases, by atoms.

    Users with equal histories are one class: a label per user, and a row of sums per class.

    Args:
        delta: of one person over all releases.
        liars: share of each atom's answers that is assumed to lie.
        curves: upper ends of delta for a randomizer and a number of answers.
    """

    def __init__(
        self,
        delta: Fraction,
        liars: Fraction = LIARS,
        curves: Callable[[Randomizer, int], Curve] = curve,
    ) -> None:
        self.delta = delta
        self._liars = liars
        self._curves = curves
        self._questions: dict[bytes, tuple[int, Atoms]] = {}  # those that are in memory
        self._kept: Callable[[bytes], bytes | None] = _keep_nothing
        self._releases = 0
        self._numbers = 0  # of questions, second answers included
        self._budgets = RenyiBudgets(delta / 4)
        self._classes = np.zeros(0, np.int64)  # of each ordinal
        self._sums = np.zeros((1, 2 + len(self._budgets.orders)), np.int64)  # of each class
        self._pairs: dict[tuple[Randomizer, int], LossPair] = {}
        self._charges: dict[tuple[int, InclusionAtom], NDArray[np.int64]] = {}

    def enter(self, release: TallyRelease) -> None:
        """Enter the next release; answers that were released before are not charged again.

        A user who has drawn a second answer (see `Atoms.release`) is charged the local epsilon for
        both: the second is one of another question, and hides in none.
        """
        randomizer = release.randomizer
        number, atoms = self._question(release)
        drawn = self._release(number, atoms, release)
        if len(drawn):
            self._numbers += 1
            charge = self._charge(self._numbers, ALONE, randomizer)
            self._apply(drawn, charge[None], np.zeros(len(drawn), np.int64))
        self._releases += 1

    @property
    def releases(self) -> int:
        """Number of releases that were entered."""
        return self._releases

    def state(self) -> bytes:
        """Return all but the questions, for `restore`."""
        counts = np.array([self._releases, self._numbers], np.int64)
        return _packed(classes=self._classes, sums=self._sums, counts=counts)

    def restore(self, state: bytes, kept: Callable[[bytes], bytes | None]) -> None:
        """Go on from what `state` and `take_questions` have returned."""
        arrays = _unpacked(state)
        self._classes, self._sums = arrays["classes"], arrays["sums"]
        self._releases, self._numbers = map(int, arrays["counts"])
        self._questions.clear()
        self._charges.clear()
        self._kept = kept

    def take_questions(self) -> dict[bytes, bytes]:
        """Return the states of the questions in memory, and leave them to `kept`."""
        found = {}
        for question, (number, atoms) in self._questions.items():
            charges = np.array([self._charge(number, one, atoms.randomizer) for one in atoms.atoms])
            head = np.array(number, np.int64)
            found[question] = _packed(number=head, charges=charges, **atoms.state())
        self._questions.clear()
        self._charges.clear()
        return found

    def _question(self, release: TallyRelease) -> tuple[int, Atoms]:
        """Return the number and the atoms of a release's question, new ones if it has none."""
        found = self._questions.get(release.question)
        if found is not None:
            return found
        kept = self._kept(release.question)
        if kept is None:
            self._numbers += 1
            found = self._numbers, Atoms(release.randomizer)
        else:
            arrays = _unpacked(kept)
            found = int(arrays["number"]), Atoms.restored(release.randomizer, arrays)
            # As they were charged: another processor may round a bound otherwise.
            for atom, charge in zip(found[1].atoms, arrays["charges"], strict=True):
                self._charges[found[0], atom] = charge
        self._questions[release.question] = found
        return found

    def _release(self, number: int, atoms: Atoms, release: TallyRelease) -> Users:
        """Enter a release of a question; return the users who have drawn a second answer."""
        before, known = atoms.users, atoms.charged()
        drawn = atoms.release(release.users, release.unknown)
        users, labels = atoms.users, atoms.labels
        old = np.zeros(len(users), np.int64)  # 0: charged nothing; else 1 + label before
        old[users.searchsorted(before)] = known.labels + 1
        pairs, which = np.unique(old * len(atoms.atoms) + labels, return_inverse=True)
        nothing = np.zeros(self._sums.shape[1], np.int64)
        rows = [nothing] + [self._charge(number, atom, atoms.randomizer) for atom in known.atoms]
        rows_now = [self._charge(number, atom, atoms.randomizer) for atom in atoms.atoms]
        changes = np.array(
            [rows_now[pair % len(atoms.atoms)] - rows[pair // len(atoms.atoms)] for pair in pairs]
        ).reshape(len(pairs), len(nothing))
        self._apply(users, changes, which.reshape(-1))
        return drawn

    def figures(self, enrolled: int = 1) -> OuterFigures:
        """Return the largest and the median epsilon over all users of any release."""
        sizes = np.bincount(self._classes, minlength=len(self._sums))
        charged = self._sums[:, 0] > 0
        rows, sizes = self._sums[charged], sizes[charged]
        stated, plain = self._epsilons(rows), _nats(rows[:, 0])
        local = stated > _LITTLE * plain
        worth = np.minimum(stated, plain)
        users = int(sizes.sum())
        order = np.argsort(worth)
        middle = None
        if users:
            at = int(np.searchsorted(np.cumsum(sizes[order]), (users + 1) // 2))
            middle = float(worth[order][at])
        gained = worth[~local & (sizes > 0)]
        return OuterFigures(
            users=users,
            releases=self._releases,
            questions=self._numbers,
            delta=float(self.delta),
            epsilon=float(worth[sizes > 0].max()) if len(gained) else None,
            median=middle,
            local_only=int(sizes[local].sum()),
            late=delta_for(enrolled) < self.delta,
        )

    def epsilon_of(self, user: int) -> float:
        """Return the epsilon of a user over all releases, nats: the least bound that holds."""
        if user >= len(self._classes):
            return 0.0
        row = self._sums[self._classes[user] : self._classes[user] + 1]
        return float(min(self._epsilons(row)[0], _nats(row[0, :1])[0]))

    @property
    def classes(self) -> int:
        """Number of classes of users, that of no release included."""
        return len(self._sums)

    def _epsilons(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the less of the two bounds for each class."""
        return np.minimum(_nats(rows[:, 1]), self._budgets.epsilons(_nats(rows[:, 2:])))

    def _apply(self, users: Users, changes: NDArray[np.int64], which: NDArray[np.int64]) -> None:
        """Add a row to each user's sums; users of one class with one row stay one class."""
        end = int(users[-1]) + 1 if len(users) else 0
        if end > len(self._classes):
            more = np.zeros(end - len(self._classes), np.int64)
            self._classes = np.concatenate((self._classes, more))
        moves = (changes != 0).any(axis=1)[which]
        moved, rows = users[moves], which[moves]
        kinds, labels = np.unique(self._classes[moved] * len(changes) + rows, return_inverse=True)
        sums = self._sums[kinds // max(len(changes), 1)] + changes[kinds % max(len(changes), 1)]
        self._classes[moved] = len(self._sums) + labels.reshape(-1)
        self._sums = np.concatenate((self._sums, sums))
        used = np.bincount(self._classes, minlength=len(self._sums)) > 0
        used[0] = True  # users of no release
        self._sums = self._sums[used]
        self._classes = (np.cumsum(used) - 1)[self._classes]

    def _charge(
        self, number: int, atom: InclusionAtom, randomizer: Randomizer
    ) -> NDArray[np.int64]:
        """Return a question's cost to a user of an atom, in pico-nats: local, sum, Renyi."""
        # A division of the atom adds a step of twice the local loss to the Renyi bound, and lowers
        # the sum's delta by the choices that it may have followed (Theorem 4).
        known = self._charges.get((number, atom))
        if known is not None:
            return known
        local = local_epsilon(randomizer)
        share = weight(number) * self.delta
        hidden = honest(atom.size, self._liars)
        plain = local
        if hidden >= 2 and atom.choices < MOST_CHOICES:
            found = self._pair(randomizer, hidden).epsilon(share / 2 / atom.choices)
            plain = min(plain, found)
        first = honest(atom.first, self._liars)
        divided = [_pure_renyi(2 * local, alpha) for alpha in self._budgets.orders]
        if first >= 2 and atom is not ALONE:
            pair = self._pair(randomizer, first)
            cut = pair.cut(share / 4)
            rhos = [pair.renyi(alpha, cut) for alpha in self._budgets.orders]
        else:
            rhos = [_pure_renyi(local, alpha) for alpha in self._budgets.orders]
        values = [local, plain] + [
            rho + atom.divisions * more for rho, more in zip(rhos, divided, strict=True)
        ]
        row = np.array([ceil(Fraction(value) * _PICO) for value in values], np.int64)
        self._charges[number, atom] = row
        return row

    def _pair(self, randomizer: Randomizer, answers: int) -> LossPair:
        """Return the pair of a batch of so many answers, or of slightly fewer (Lemma 1)."""
        fewer = rounded_answers(answers)
        known = self._pairs.get((randomizer, fewer))
        if known is None:
            known = self._pairs[randomizer, fewer] = pair_of(self._curves(randomizer, fewer))
        return known


class RenyiBudgets:
    """Budgets of the Renyi bound, each with an order and an equal share of `delta`."""

    def __init__(self, delta: Fraction) -> None:
        count = len(_OCTAVES) * _PER_OCTAVE
        self._inverse = log_inverse(delta / count)
        self.orders = tuple(1 + 2 * self._inverse / (2.0**octave * 1.4) for octave in _OCTAVES)
        self.budgets = tuple(
            tuple(2.0 ** (octave + part / _PER_OCTAVE) for part in range(_PER_OCTAVE))
            for octave in _OCTAVES
        )

    def epsilons(self, rhos: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the least budgets that sums of Renyi divergences, one per order, do not pass."""
        least = np.full(len(rhos), inf)
        for alpha, spent, budgets in zip(self.orders, rhos.T, self.budgets, strict=True):
            paid = (self._inverse - log(alpha)) / (alpha - 1) + log(1 - 1 / alpha)
            passed = np.searchsorted(budgets, (spent + paid) * (1 + 2.0**-40))
            least = np.minimum(least, np.array([*budgets, inf])[passed])
        return least


def _packed(**arrays: NDArray[Any]) -> bytes:
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def _nats(pico: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return whole pico-nats as nats, rounded upward; multiples of 5^12 are floats exactly."""
    return np.where(pico % 5**12 == 0, pico / _PICO, np.nextafter(pico / _PICO, inf))


def _pure_renyi(epsilon: float, alpha: float) -> float:
    """Return the Renyi divergence of randomized response, at least (van Erven, Harremoes 2014)."""
    if epsilon == 0:
        return 0.0
    # ln((e^(a e) + e^((1 - a) e)) / (1 + e^e)) / (a - 1) up to rounding
    top = alpha * epsilon
    inner = top + np.log1p(exp(min(0.0, epsilon - 2 * top))) - np.logaddexp(0.0, epsilon)
    return min(epsilon, outward(max(0.0, float(inner)) / (alpha - 1)) + 1e-13)
