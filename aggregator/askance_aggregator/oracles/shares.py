"""Division of a failure probability over values whose number is not known in advance."""

from __future__ import annotations

from fractions import Fraction

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text


class Shares:
    """Gives every value its share of beta; all shares together are at most beta.

    The k-th value that is asked for spends beta / (k (k+1)), which sums to beta however many there
    will be, or beta / M if their number M is given. All values of one question spend what its last
    one does.

    Args:
        beta: the probability of failure, in (0, 1).
        values: how many values will be asked for in all, if it is known.
    """

    def __init__(self, beta: float | Fraction, values: int | None = None) -> None:
        if not 0 < beta < 1:
            raise InvalidParameter(f"beta expects a probability in (0, 1), got {value_text(beta)}")
        if values is not None and values < 1:
            raise InvalidParameter(f"values expects 1 or more, found {values}")
        self._beta = float(beta)
        self._values = values
        self._asked = 0

    def spend(self, values: int) -> float:
        """Return the share of each of the next values.

        Raises:
            InvalidParameter: more than were announced.
        """
        self._asked += values
        if self._values is None:
            return self._beta / (self._asked * (self._asked + 1))
        if self._asked > self._values:
            raise InvalidParameter(
                f"an oracle for {self._values} values was asked for {self._asked}"
            )
        return self._beta / self._values
