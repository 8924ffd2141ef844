"""The learners of the catalogue, and what a learner of one's own is written with.

A learner names columns; the study, simulation or oracle that it is given to has the schema. It may
also be given the schema first: `difference(schema, "age", by="sex")`. `mean` and `frequency` take
any expression over a schema's fields, too.

>>> schema = ask.Schema("people", age=ask.Integer(0, 120))
>>> ask.learners.mean("age")
<Unbound: mean('age')>
>>> learner = ask.learners.mean(schema.age > 40)
>>> learner.name
'mean'
>>> oracle = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
>>> ask.learn(learner, oracle).estimate
0.5
"""

from typing import TYPE_CHECKING

from askance_aggregator.learners import *  # noqa: F403  # the same names, listed once, over there
from askance_aggregator.learners import __all__ as __all__

if not TYPE_CHECKING:  # a checker knows the names

    def __getattr__(name: str) -> object:
        """Name the learner that may be meant by a name that there is not."""
        from askance_aggregator.learners.registry import nearest_learner

        hint = "" if name.startswith("_") else nearest_learner(name, __all__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
