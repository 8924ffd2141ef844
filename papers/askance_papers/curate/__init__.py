"""The trusted curator's learners on a data file, by name.

Rules of the package:

- A learner is a function of a request, in `answers` or `classifiers`. The mechanisms are those of
  `askance_papers.curator`; here a file is read, settings are parsed, and the release is
  printed.
- Bounds and labels are stated, by a schema or by settings. Taken from the data they are answers
  without a charge: with `bounds=from-data` the result states that nothing is guaranteed.
- A release draws from the operating system. With a seed it is an experiment, and marked as one.
- A value that does not keep to what is stated is an error before anything is drawn.
"""

from askance_papers.curate.registry import LEARNERS, CuratorEntry, find
from askance_papers.curate.request import COMMON, Curated, CuratorRelease, CuratorRequest
from askance_papers.curate.run import curate

__all__ = [
    "COMMON",
    "LEARNERS",
    "Curated",
    "CuratorEntry",
    "CuratorRelease",
    "CuratorRequest",
    "curate",
    "find",
]
