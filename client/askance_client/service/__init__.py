"""The device's runtime: the only package of the client that knows gRPC.

Its rules: a device dials out and believes nothing that comes back. What arrives is bounded in bytes
and in items before it is looked at; an exchange that breaks the protocol is dropped whole and tried
again later. A report leaves only after the device's core has made it durable; it is kept and sent
again, the same bytes, until the aggregator acknowledges it, and never computed anew. Waiting is
exponential with full jitter, so that a fleet does not come back as one.

`exchange` is what passes in one exchange, as values and as bytes; `outbox` keeps what is not
acknowledged; `observable` decides order, timing, batches and retries, in one table; `runtime` puts
them around a `Device`, once (`check_in_once`) or held open (`participate`); `gateway` runs many of
them in one loop, answers in threads so that they wait for the disk together; `enrolment` makes
devices known, and `credentials` proves a device in the metadata of its calls.
"""

from askance_client.service.channels import NO_PROXY, channel_options, open_channel
from askance_client.service.clock import local_hour, steady_ms, system_now_ms, system_now_s
from askance_client.service.credentials import (
    PROTOCOL_KEY,
    RETRY_KEY,
    Credentials,
    Metadata,
    Received,
    accepted_metadata,
    device_metadata,
    enrolment_metadata,
    protocol_of,
    read_credentials,
    read_enrolment,
    read_retry_ms,
    retry_metadata,
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
    count_entries,
    decode_check_in,
    decode_enrol,
    decode_enrolled,
    decode_response,
    encode_check_in,
    encode_enrol,
    encode_enrolled,
    encode_response,
)
from askance_client.service.garbage_collection import rare_collections
from askance_client.service.gateway import CheckInOutcome, Gateway, Member, Watcher
from askance_client.service.identity import Identity, Secret, token_digest
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
from askance_client.service.runtime import DeviceRunner, describe

__all__ = [
    "MAX_ENROLMENTS",
    "MAX_ENTRIES",
    "MAX_KNOWN_STUDIES",
    "MAX_REPORTS",
    "MAX_REQUESTS",
    "MAX_REQUEST_MESSAGE_BYTES",
    "MAX_RESPONSE_BYTES",
    "MAX_STUDIES",
    "NO_PROXY",
    "PROTOCOL",
    "PROTOCOL_KEY",
    "RETRY_KEY",
    "SERVICE",
    "STREAMS_PER_CONNECTION",
    "Backoff",
    "CheckIn",
    "CheckInOutcome",
    "Credentials",
    "DeviceRunner",
    "Enrol",
    "ExchangeTooLarge",
    "Gateway",
    "Identity",
    "Jitter",
    "Member",
    "Metadata",
    "Outbox",
    "Received",
    "Response",
    "Secret",
    "Sleep",
    "Watcher",
    "accepted_metadata",
    "channel_options",
    "connections_for",
    "count_entries",
    "decode_check_in",
    "decode_enrol",
    "decode_enrolled",
    "decode_response",
    "describe",
    "device_metadata",
    "encode_check_in",
    "encode_enrol",
    "encode_enrolled",
    "encode_response",
    "enrol",
    "enrolment_metadata",
    "local_hour",
    "open_channel",
    "protocol_of",
    "rare_collections",
    "read_credentials",
    "read_enrolment",
    "read_retry_ms",
    "retry_metadata",
    "sleep_ms",
    "steady_ms",
    "system_jitter",
    "system_now_ms",
    "system_now_s",
    "time_limit_ms",
    "token_digest",
]
