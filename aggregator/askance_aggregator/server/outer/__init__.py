"""The outer process: all that callers without a certificate reach of an aggregator.

A caller that has proved nothing can make a TLS or HTTP/2 library hold memory before any limit of
ours applies. So such callers meet a process of their own, which holds the server's certificate and
its key, and nothing else: no store, no devices' authority, no enrolment key. It has a limit on its
memory, is the first that the system ends when memory is short, and is started again when it ends.
The process that serves devices accepts only connections with a certificate that it has issued.

Theory of operation. The aggregator listens at the public address, starts this process
(`supervisor`) and hands it the listening socket: connections wait in it while no outer process
runs. Settings, certificate and key come over a pipe, one JSON object per line (`settings`), and
again when the operator reloads them; the end of the pipe ends the process. `listener` accepts
connections, within limits in all and per address (`addresses`), and speaks TLS. The protocol that
TLS has agreed on decides: HTTP/1.1 is for enrolment and certificates of devices (`http_calls`), and
for check-ins of devices without gRPC if an operator lets them call (`connect_calls`), one call per
connection; HTTP/2 is for analysts and operators, whose bytes go to a gRPC server in this
process (`pass_through`). Calls of both kinds go on to the aggregator over a Unix socket that only
its own user can open, with the caller's address in their metadata; nothing of a message
is read here. Callers with a certificate reach the aggregator by another process, the `valve`, which
holds nothing and paces them.
"""
