"""Randomizers of more cells than two bytes hold, for the vectors."""

from __future__ import annotations

from typing import Any

from askance_client.randomizers import KaryResponse, LinearHashing, Randomizer, SubsetSelection

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
]
