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

from askance_aggregator.learners import *  # noqa: F403  # the same names, listed once, over there
from askance_aggregator.learners import __all__ as __all__
