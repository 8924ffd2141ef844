"""The server: the aggregator on the network, as one process.

`devices` serves the devices' calls, `studies` accepts and runs studies, `callers` admits analysts
and operators by identity and role, `services` serves their calls, and `process` is what an operator
configures, starts, watches and stops. `outer` has two processes beside it: the one that callers
without a certificate reach, and the valve that all others come through. `webhooks` sends results to
receivers, by a process of its own. Imports go
``process -> services -> callers -> studies -> {devices, webhooks} -> outer``. Nothing here imports
the curator or the simulation.
"""
