"""Boosting over users: AdaBoost, its weak learners chosen privately.

DRV10 announces boosting whose rows are users (section I) and leaves it to a full paper. What
stands here is ours, in its spirit: weights that no user can make large, and an exponential
mechanism (or permute-and-flip) as the weak learner.

`classifier.PrivateBoostingClassifier` has scikit-learn's conventions; it is imported by its module,
since scikit-learn takes a while.
"""

from askance_papers.curator.people.boosting import Boosting, Committee

__all__ = ["Boosting", "Committee"]
