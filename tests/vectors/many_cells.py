"""Randomizers of many cells or symbols, for the vectors: reports and messages of wider forms."""

from __future__ import annotations

from typing import Any

from askance_client.randomizers import (
    Channel,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SubsetSelection,
)

WINDOWS = Channel(
    tuple(
        tuple(15 << 56 if symbol // 16 == level else 1 << 52 for symbol in range(272))
        for level in range(17)
    )
)
"""A table of 272 symbols, each likely at one of 17 levels."""

WIDE: list[tuple[str, Randomizer, dict[str, Any]]] = [
    (
        "k-ary response, three bytes",
        KaryResponse(65_536, 1 << 40),
        {"family": "k-ary", "cells": 65_536},
    ),
    (
        "subset selection, indices of three bytes: 5 of 1,048,576",
        SubsetSelection(1 << 20, 5, 3 << 62),
        {"family": "subset", "cells": 1 << 20, "size": 5, "threshold": str(3 << 62)},
    ),
    (
        "linear hashing, the most cells and the greatest modulus",
        LinearHashing(1 << 20, 65_521, (1 << 46) + 5),
        {"family": "hashing", "cells": 1 << 20, "modulus": 65_521},
    ),
    (
        "linear hashing, 65,536 cells",
        LinearHashing(65_536, 2, (1 << 62) + 5),
        {"family": "hashing", "cells": 65_536, "modulus": 2},
    ),
]
"""Name, randomizer and stated parameters of each case."""
