"""The wire: what may pass between a device, an aggregator and an analyst.

Theory of operation. An analyst signs a `Study`; the aggregator turns each round of its learner into
request payloads; a device answers a payload with a report. Everything that is hashed or signed
(a study, a request, a report) travels as *bytes* inside the envelopes, so that a digest is always
taken of what was received and never of what a library would serialise again.

Fields are append-only. `v1` holds the checked-in stubs; CI regenerates them and compares.
"""
