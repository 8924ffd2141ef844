"""What many releases cost together.

Theory of operation: what happened (`events`: each release by the strongest guarantee that is known
of it) stands apart from what it costs (accountants, which sum, bound or convolve).
"""

from askance.aggregator.composition.events import (
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    Pure,
)

__all__ = ["Approximate", "BoundedRange", "Concentrated", "Event", "Pure"]
