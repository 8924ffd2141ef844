"""Theorems, tables and figures of the papers, printed beside measured values.

Rules of the package:

- One module a reproduction: `reproduce(setting) -> Reproduction`. The algorithms are those of
  `askance_papers.curator` and `askance_aggregator`; what only the print has (and is not private, or
  not true) stands in the module here, is named so, and is offered nowhere else.
- Everything random comes from the setting's seed: the same command gives the same rows.
- `holds` is decided by the numbers in the rows, with a stated slack for chance; nothing is assumed.
- A noise is held to its claim from both sides (`checks`), each check with a false-alarm rate of
  1e-6: its size, its signs and directions, and that it is drawn anew. A size that is proved is
  compared with the proof's own formula. Three planted defects per reproduction have to make it
  fail (tests/papers/reproduce/planted_defects.py).
"""

from askance_papers.reproduce.registry import REPRODUCTIONS, find
from askance_papers.reproduce.reproduction import Effort, Reproduction, Row, Setting, save

__all__ = [
    "REPRODUCTIONS",
    "Effort",
    "Reproduction",
    "Row",
    "Setting",
    "find",
    "save",
]
