"""Reports that are sets of items: a bitmap, or sorted indices where these are shorter."""

from __future__ import annotations

from askance_client.randomizers.floyd import PRESENT
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import Randomizer


class SetRandomizer(Randomizer):
    """A randomizer whose report is a set of `size` of the items 0..items-1.

    A report has the shorter of two forms, the bitmap if both are equally long. The form and its
    length are functions of `items` and `size` alone. Each set has one report:

    - a bitmap of ceil(items / 8) bytes: item v is bit 7 - v % 8 of byte v // 8 (the order of
      numpy.unpackbits), trailing bits are 0, exactly `size` bits are 1;
    - indices: the `size` items in ascending order, in the bytes that hold the number of items
      each (1 up to 255 items, 2 up to 65,535, else 3), big-endian.

    No report is all ones: a bitmap has a bit free, and no index is as great as the number of items.
    """

    __slots__ = ()

    size: int
    _loss: PrivacyLoss

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above."""
        return self._loss

    @property
    def items(self) -> int:
        """Number of items, at least `size`: the levels, unless a family says otherwise."""
        return self.levels

    @property
    def index_bytes(self) -> int:
        """Bytes per index; 0 where a report is a bitmap."""
        needed = -(-self.items.bit_length() // 8)
        return needed if needed * self.size < -(-self.items // 8) else 0

    @property
    def width(self) -> int:
        """Bytes of the bitmap or of the indices."""
        return self.index_bytes * self.size or -(-self.items // 8)

    def encode(self, members: bytearray) -> bytes:
        """Serialise a set, given as a digit per item: b"1" if it is in, else b"0"."""
        each, item = self.index_bytes, -1
        if not each:
            return int(members.ljust(8 * self.width, b"0"), 2).to_bytes(self.width, "big")
        found = [item := members.index(PRESENT, item + 1) for _ in range(self.size)]
        return b"".join([item.to_bytes(each, "big") for item in found])
