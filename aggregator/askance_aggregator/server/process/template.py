"""The configuration that `askance aggregator init` writes: complete, and every key explained."""

from __future__ import annotations

from askance_client.addresses import Address

_TEMPLATE = """\
# An askance aggregator. Start it with: askance aggregator serve --config FILE (this file).
# Paths are relative to this file.

# Where devices and analysts call. Port 0 takes a free one.
listen = "{listen}"

# All that it must not forget, in one SQLite file that one process holds.
store = "sqlite:///store.sqlite"

# What callers know it by. Devices and analysts pin ca.pem, whose key (ca.key) is needed only to
# renew server.pem: keep it elsewhere. Without this table it speaks plain text, on loopback only
# unless `plaintext = true` stands above.
[tls]
certificate = "server.pem"
key = "server.key"

# Signs enrolment tokens (askance aggregator token). Whoever reads it can make devices known.
# Without this table nobody can be enrolled over the network.
[enrolment]
key = "enrolment.key"

# The Ed25519 public keys of analysts whose studies are taken. This one's private half is
# analyst.pem: give it to the analyst and remove it here.
[analysts]
keys = [
  "{analyst}",
]

[limits]
# Each user's epsilon over all studies together; a study that could pass it is refused. Left out:
# no limit here; devices keep budgets of their own, whatever stands here.
# epsilon_per_user = "8"
open_studies = 64 # at one time
streams = 50000   # devices connected at one time
check_ins = 1000  # check-ins at work at one time; as many again may wait
connections = 60000 # at one time; fewer where the system gives fewer descriptors
# Calls of callers that have not proved an identity, at one time: in all, and per IPv4 address or
# IPv6 network of 64 bits. Addresses of proxies, which stand for many callers, are exempt from the
# second limit.
unproven_calls = 1024
unproven_calls_per_address = 256
trusted_proxies = [] # such as "192.0.2.10" or "2001:db8::/64"
handshake_s = 10     # for the TLS and HTTP/2 handshakes of a connection
first_message_s = 5  # for the first message of a call, after its credentials
idle_s = 600         # a connection without a call is closed
age_s = 86400        # a connection takes no new calls; open streams go on
retry_ms = 1000      # an overloaded aggregator asks for a wait of so long to twice as long

# Prometheus metrics over HTTP, without protection of their own: keep them on loopback or behind
# something. Left out: none.
[metrics]
listen = "{metrics}"

# One JSON object a line on stderr: debug, info, warning or error.
[logs]
level = "info"
"""


def configuration_text(listen: Address, metrics: Address, analyst: bytes) -> str:
    """A whole configuration for the files that lie beside it.

    Args:
      listen: address of the service.
      metrics: address of the page of metrics.
      analyst: the public key of the first analyst.
    """
    return _TEMPLATE.format(listen=listen, metrics=metrics, analyst=analyst.hex())
