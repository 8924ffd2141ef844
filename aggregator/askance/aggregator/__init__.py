"""The aggregator: asks a fleet of devices statistical questions and learns from the answers.

Nothing here decides what a device reveals (that is `askance.client`); what is decided here is what
to ask, of how many, and what to conclude. Its rooms:

- ``learners``: generators without I/O, which know queries only.
- ``oracles``: what answers a learner: exactly, from samples, as a curator, or as an adversary; a
  fleet is one more. ``equivalence``: local algorithms and statistical queries in place of each
  other.
- ``tables``: randomizers for the mean of a bounded number, designed by linear program.
- ``estimation``: from counts of reports to an unbiased answer with its interval.
- ``planning``: how many users each question needs, with which randomizer, before anyone is asked.
- ``store``, ``session``, ``service``: the durable transcript, the driver of a study, the network.
- ``desk``: runs the studies that were submitted; ``analyst``: how they are submitted, watched and
  verified; ``operation``: an aggregator as a process, its files, tokens, logs and metrics.
- ``composition``: what many releases cost together. ``curator``: the papers' algorithms for who
  holds everybody's records.

Imports go ``{service, session} -> {oracles, planning, store} -> {estimation, learners}``. This
module imports nothing, so that a command line that only prints its help stays fast.
"""
