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
stream, and `gateway` runs them; `enrolment` makes devices known, and `credentials` proves a caller
in the metadata of its calls; `certificates` keeps the certificate that proves it to TLS as well.
"""

from askance_client.service.answering import DeviceAnswers
from askance_client.service.authority import (
    Authority,
    OwnCertificate,
    RenewedChannel,
    read_authority,
)
from askance_client.service.certificates import CertificateFile, DeviceCertificate
from askance_client.service.channels import NO_PROXY, channel_options, open_channel
from askance_client.service.clock import local_hour, steady_ms, system_now_ms, system_now_s
from askance_client.service.credentials import (
    PROTOCOL_KEY,
    RETRY_KEY,
    Metadata,
    Received,
    device_metadata,
    enrolment_metadata,
    gateway_metadata,
    protocol_of,
    read_retry_ms,
)
from askance_client.service.enrolment import enrol
from askance_client.service.exchange import (
    MAX_ENROLMENTS,
    MAX_ENTRIES,
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    MAX_REQUEST_MESSAGE_BYTES,
    MAX_REQUESTS,
    MAX_RESPONSE_BYTES,
    MAX_STUDIES,
    PROTOCOL,
    SERVICE,
    STREAMS_PER_CONNECTION,
    CheckIn,
    Enrol,
    ExchangeTooLarge,
    Response,
    decode_enrolled,
    decode_response,
    encode_check_in,
    encode_enrol,
    entries_of,
)
from askance_client.service.gateway import CheckInOutcome, Gateway, Member, Watcher
from askance_client.service.gateway_exchange import (
    MAX_ACKS,
    MAX_BATCH_MEMBERS,
    MAX_JOINS,
    MAX_MEMBERS,
    MAX_UNSETTLED,
    Absence,
    GatewayBatch,
    GatewayResponse,
    Join,
    MemberReports,
    decode_gateway_response,
    encode_batch,
    keep_studies,
)
from askance_client.service.identity import Identity, Secret, token_digest
from askance_client.service.multiplexer import Multiplexer
from askance_client.service.observable import (
    Backoff,
    Jitter,
    Sleep,
    connections_for,
    sleep_ms,
    system_jitter,
    time_limit_ms,
)
from askance_client.service.outbox import Outbox
from askance_client.service.runtime import DeviceRunner
from askance_client.service.streams import describe

__all__ = [
    "MAX_ACKS",
    "MAX_BATCH_MEMBERS",
    "MAX_ENROLMENTS",
    "MAX_ENTRIES",
    "MAX_JOINS",
    "MAX_KNOWN_STUDIES",
    "MAX_MEMBERS",
    "MAX_REPORTS",
    "MAX_REQUESTS",
    "MAX_REQUEST_MESSAGE_BYTES",
    "MAX_RESPONSE_BYTES",
    "MAX_STUDIES",
    "MAX_UNSETTLED",
    "NO_PROXY",
    "PROTOCOL",
    "PROTOCOL_KEY",
    "RETRY_KEY",
    "SERVICE",
    "STREAMS_PER_CONNECTION",
    "Absence",
    "Authority",
    "Backoff",
    "CertificateFile",
    "CheckIn",
    "CheckInOutcome",
    "DeviceAnswers",
    "DeviceCertificate",
    "DeviceRunner",
    "Enrol",
    "ExchangeTooLarge",
    "Gateway",
    "GatewayBatch",
    "GatewayResponse",
    "Identity",
    "Jitter",
    "Join",
    "Member",
    "MemberReports",
    "Metadata",
    "Multiplexer",
    "Outbox",
    "OwnCertificate",
    "Received",
    "RenewedChannel",
    "Response",
    "Secret",
    "Sleep",
    "Watcher",
    "channel_options",
    "connections_for",
    "decode_enrolled",
    "decode_gateway_response",
    "decode_response",
    "describe",
    "device_metadata",
    "encode_batch",
    "encode_check_in",
    "encode_enrol",
    "enrol",
    "enrolment_metadata",
    "entries_of",
    "gateway_metadata",
    "keep_studies",
    "local_hour",
    "open_channel",
    "protocol_of",
    "read_authority",
    "read_retry_ms",
    "sleep_ms",
    "steady_ms",
    "system_jitter",
    "system_now_ms",
    "system_now_s",
    "time_limit_ms",
    "token_digest",
]
