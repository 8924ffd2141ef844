"""The aggregator as a process: what an operator makes, sets, starts, watches and stops.

Its rules: nothing is ever overwritten. A configuration is read whole and refused whole, with the
place of the error. Secrets lie in files that only their owner reads; what is logged or measured
holds counts, statuses and studies' digests, never a device's id, a token, a symbol or a value.

Theory of operation. `home` makes the folder of an aggregator: an authority of its own and a
server's certificate (`certificates`), the key of its enrolment tokens (`tokens`), an empty store, a
first analyst's key, and the `configuration` that names them. `process` serves it: it opens the
store, starts the service with the analysts' calls and the health service beside it, goes on with
every open study, and at a signal drains: it takes nothing new, commits what has arrived, leaves
open studies open. `logs` and `metrics` report on it meanwhile; `status` asks it from outside.
"""
