"""The configuration that `askance aggregator init` writes: complete, and every key explained."""

from __future__ import annotations

from askance_client.addresses import Address

_MAX_PORT = (1 << 16) - 1

_TEMPLATE = """\
# An askance aggregator. Start it with: askance aggregator serve --config FILE (this file).
# Paths are relative to this file.

# Where analysts call, and devices to be enrolled and to get their certificates. Port 0 takes a free
# one. With [tls] it is served by a process of its own, which holds no data and no other key.
listen = "{listen}"

# All that it must not forget, in one SQLite file that one process holds. Or in a PostgreSQL
# database (pip install 'askance[postgres]', then askance aggregator migrate), whose password stands
# in a file of its own: it is never taken from the address.
store = "sqlite:///store.sqlite"
# store = "postgresql://askance@db.example.org:5432/askance?sslmode=verify-full"
# store_password_file = "postgresql.password"

# The name of this process among those that serve from one PostgreSQL database; a process that is
# started again goes on at once with the studies of its name. Left out: its host and process id.
# replica = "aggregator-1"

# What callers know it by. Devices and analysts pin ca.pem, whose key (ca.key) is needed only to
# renew server.pem: keep it elsewhere. Without [tls] and [tls.devices] it speaks plain text, at one
# address for all, on loopback only unless `plaintext = true` stands above.
[tls]
certificate = "server.pem"
key = "server.key"     # or key_env = "NAME": a variable of the environment that holds the PEM text
# authority = "ca.pem" # devices with certificates trust it for this server, from a renewal on

# Where devices answer: they show a certificate, which each one gets by itself, signed by the key of
# the devices' authority. Every replica reads the same two files, and has the same port.
[tls.devices]
listen = "{devices}"
authority = "devices-ca.pem"
authority_key = "devices-ca.key" # or authority_key_env = "NAME"
# life_s = 2592000               # renewed at two thirds of it; the old one goes on for a tenth
# public_port = 7445             # of a proxy before it, where that is another port
# require_certificates = true    # false: devices of earlier versions may call where analysts do

# Signs enrolment tokens (askance aggregator token): a reader of this key can enrol devices.
# Without this table no device is enrolled over the network.
[enrolment]
key = "enrolment.key" # or key_env = "NAME", 64 hexadecimal digits

# The Ed25519 public keys of analysts whose studies are taken. This one's private half is
# analyst.pem: give it to the analyst and remove it here.
[analysts]
keys = [
  "{analyst}",
]

# Others who call, each with a name, a public key (askance study key) and a role: viewer (reads all
# studies and results), analyst (its own studies), operator (devices, progress of all studies,
# no results) or admin (all). A key of [analysts] that is not named is an analyst's.
# [[callers.keys]]
# name = "ops"
# key = "64 hexadecimal digits"
# role = "operator"

# Callers by tokens of an OpenID Connect issuer (pip install 'askance[oidc]'). They authenticate
# calls; a study is signed by its analyst's key all the same. jwks: https://..., or a file.
# [callers.oidc]
# issuer = "https://id.example.org"
# audience = "askance"
# jwks = "https://id.example.org/jwks.json"
# role_claim = "roles"  # dots lead into objects: "realm_access.roles"
# name_claim = "sub"    # stands in the audit log
# leeway_s = 60
# [callers.oidc.roles]    # value of the claim = role; the first that a token has counts
# askance-admins = "admin"
# [callers.oidc.analysts] # name = the public key that signs this analyst's studies
# ann = "64 hexadecimal digits"

[limits]
# Each user's epsilon over all studies together; a study that could pass it is refused. Left out:
# no limit here; devices keep budgets of their own, whatever stands here.
# epsilon_per_user = "8"
open_studies = 64 # at one time
streams = 50000   # open at one time; a gateway has one for all its devices
members = 1000000 # devices connected at one time, those of gateways included
check_ins = 1000  # check-ins at work at one time; as many again may wait
connections = 60000 # at one time; fewer where the system has fewer descriptors or less memory
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
# Calls of analysts and operators at one time: per caller, and in all. A caller is an analyst's key,
# or a name of [callers]. One that is refused is told the key of the limit.
calls_per_caller = 64  # of every kind together
calls = 1024
plans_per_caller = 8   # studies that are submitted or planned
plans = 64
watches_per_caller = 32
watches = 512
exports_per_caller = 4
exports = 64
unread_bytes_per_caller = 8388608 # sent and not read by the caller
unread_bytes = 134217728
unknown_calls = 1024   # whose caller is being identified, in all

# Days after a study's end for which its single reports, and its results with counts and
# transcripts, are kept: of studies that sign none, and at most. Left out: until they are deleted
# (askance study delete). Open studies are never touched.
# [keep]
# reports_days = 90
# results_days = 730
# most_reports_days = 365 # a study that signs more is refused
# most_results_days = 3650
# collect_every_s = 3600

# What each analyst may submit; a study past it is refused with the figures. A day is one of UTC.
# Left out: 8 open studies and 100 per day, and no limit of the other two keys.
# [[quotas.analysts]] is of one analyst, in place of all of these.
[quotas]
open_studies = 8
studies_per_day = 100
# epsilon_per_day = "2"    # per user, of all studies of one analyst and day
# users_per_study = 100000 # that a study's plan needs
# [[quotas.analysts]]
# key = "64 hexadecimal digits"
# open_studies = 20

# Prometheus metrics over HTTP, without protection of their own: keep them on loopback or behind
# something. Left out: none.
[metrics]
listen = "{metrics}"

# Spans and metrics to an OpenTelemetry collector, by OTLP over gRPC (pip install 'askance[otel]').
# Left out: nothing is sent. https:// needs the collector's authority (ca), or the system's.
# [telemetry]
# endpoint = "http://127.0.0.1:4317"
# ca = "collector-ca.pem"
# interval_s = 60        # between two sendings of the metrics
# commits_per_span = 100 # of so many commits of reports, one has a span; all studies and rounds do

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
    devices = metrics.port and metrics.port + 1
    return _TEMPLATE.format(
        listen=listen,
        metrics=metrics,
        devices=listen.at_port(devices if devices <= _MAX_PORT else listen.port - 2),
        analyst=analyst.hex(),
    )
