"""The device's runtime: the only package of the client that knows gRPC.

Its rules: a device dials out and believes nothing that comes back. What arrives is bounded in bytes
and in items before it is looked at; an exchange that breaks the protocol is dropped whole and tried
again later. A report leaves only after the device's core has made it durable; it is kept and sent
again, the same bytes, until the aggregator acknowledges it, and never computed anew. Waiting is
exponential with full jitter, so that a fleet does not come back as one.

`exchange` is what passes in one exchange, as values and as bytes; `outbox` keeps what is not
acknowledged; `observable` decides order, timing, batches and retries, in one table; `runtime` puts
them around a `Device`, once (`check_in_once`) or held open (`participate`); `streams` opens a
stream again after a failure; `answering` lets devices answer, in threads so that they wait for the
disk together; `gateway_exchange` and `multiplexer` are the exchange of many members over one
stream, and `gateway` runs them; `enrolment` makes devices known, by calls of `open_side`, and
`credentials` proves a caller in the metadata of its calls; `certificates` keeps the certificate
that proves it to TLS as well.
"""

from askance_client.service.authority import Authority, OwnCertificate, read_authority
from askance_client.service.certificates import CertificateFile
from askance_client.service.channels import channel_options, open_channel
from askance_client.service.clock import local_hour, steady_ms, system_now_ms, system_now_s
from askance_client.service.credentials import Metadata, device_metadata, gateway_metadata
from askance_client.service.enrolment import enrol
from askance_client.service.exchange import (
    MAX_REQUESTS,
    MAX_RESPONSE_BYTES,
    SERVICE,
    CheckIn,
    Response,
    decode_response,
    encode_check_in,
)
from askance_client.service.gateway import CheckInOutcome, Gateway, Member
from askance_client.service.identity import Identity, Secret, token_digest
from askance_client.service.observable import time_limit_ms
from askance_client.service.open_side import CallFailed, OpenSide

__all__ = [
    "MAX_REQUESTS",
    "MAX_RESPONSE_BYTES",
    "SERVICE",
    "Authority",
    "CallFailed",
    "CertificateFile",
    "CheckIn",
    "CheckInOutcome",
    "Gateway",
    "Identity",
    "Member",
    "Metadata",
    "OpenSide",
    "OwnCertificate",
    "Response",
    "Secret",
    "channel_options",
    "decode_response",
    "device_metadata",
    "encode_check_in",
    "enrol",
    "gateway_metadata",
    "local_hour",
    "open_channel",
    "read_authority",
    "steady_ms",
    "system_now_ms",
    "system_now_s",
    "time_limit_ms",
    "token_digest",
]
