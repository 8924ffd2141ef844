"""The aggregator: statistical questions to a fleet of devices, and learning from the answers.

Nothing here decides what a device reveals (that is `askance_client`); what is decided here is what
to ask, of how many, and what to conclude. Its packages:

- ``learners``: generators without I/O, which know queries only.
- ``numbers``: exact parsing; ``sampling``: exact draws.
- ``oracles``: what answers a learner: exactly, from samples, or as an adversary; a fleet is one
  more.
- ``queries``: queries as an analyst builds them; ``families``: facts of each family of randomizers.
- ``declarations``: annotated arguments, by which parameters and keys are stated once.
- ``table_design``: randomizers for the mean of a bounded number, designed by linear program.
- ``estimation``: from counts of reports to an unbiased answer with its interval.
- ``reports``: results and plans for readers, without a medium: a terminal prints them, a notebook
  shows them.
- ``planning``: how many users each question needs, with which randomizer, before any user is asked.
- ``store``: the durable transcript; ``studies``: studies, their sessions and their results.
- ``server``: the network: the devices' calls, the manager of submitted studies, the analysts'
  calls, and the process with its files, tokens, logs and metrics.
- ``analyst``: the client side of submitting, watching and verifying a study.
- ``composition``: the cost of many releases together.

Imports go ``server -> analyst -> studies -> oracles -> planning -> reports ->
estimation -> {learners, composition, table_design, store} -> families ->
{declarations, encoding, numbers, queries, sampling}``. This module imports nothing, so that a
command line that only prints its help stays fast.
"""
