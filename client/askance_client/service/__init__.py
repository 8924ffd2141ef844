"""The device's runtime: the only package of the client that knows gRPC.

Its rules: a device dials out and believes nothing that comes back. What arrives is bounded in bytes
and in items before it is looked at; an exchange that breaks the protocol is dropped whole and tried
again later. A report leaves only after the device's core has made it durable; it is kept and sent
again, the same bytes, until the aggregator acknowledges it, and never computed anew. Waiting is
exponential with full jitter, so that a fleet does not come back as one.

`exchange` is what passes in one exchange, as values and as bytes; `observable` decides order,
timing, batches and retries, in one table; `runtime` puts them around a `Device`, once
(`check_in_once`) or held open (`participate`), and keeps what is not acknowledged; `streams` opens
a stream again after a failure; `answering` lets devices answer, in threads so that they wait for
the disk together; `gateway_exchange` and `multiplexer` are the exchange of many members over one
stream, and `gateway` runs them, by an `access`; `enrolment` makes devices known, by calls of
`open_side`, and
`credentials` proves a caller in the metadata of its calls; `certificates` keeps the certificate
that proves it to TLS as well.
"""

from askance_client.service.access import AggregatorAccess as AggregatorAccess
from askance_client.service.authority import read_authority as read_authority
from askance_client.service.certificates import CertificateFile as CertificateFile
from askance_client.service.channels import channel_options as channel_options
from askance_client.service.channels import open_channel as open_channel
from askance_client.service.clock import local_hour as local_hour
from askance_client.service.clock import steady_ms as steady_ms
from askance_client.service.clock import system_now_ms as system_now_ms
from askance_client.service.clock import system_now_s as system_now_s
from askance_client.service.credentials import Metadata as Metadata
from askance_client.service.credentials import device_metadata as device_metadata
from askance_client.service.credentials import gateway_metadata as gateway_metadata
from askance_client.service.enrolment import Enrolment as Enrolment
from askance_client.service.enrolment import an_enrolment_token as an_enrolment_token
from askance_client.service.exchange import MAX_REQUESTS as MAX_REQUESTS
from askance_client.service.exchange import MAX_RESPONSE_BYTES as MAX_RESPONSE_BYTES
from askance_client.service.exchange import SERVICE as SERVICE
from askance_client.service.exchange import CheckIn as CheckIn
from askance_client.service.exchange import Response as Response
from askance_client.service.exchange import decode_response as decode_response
from askance_client.service.exchange import encode_check_in as encode_check_in
from askance_client.service.gateway import CheckInOutcome as CheckInOutcome
from askance_client.service.gateway import Gateway as Gateway
from askance_client.service.gateway import Member as Member
from askance_client.service.identity import Identity as Identity
from askance_client.service.identity import Secret as Secret
from askance_client.service.identity import token_digest as token_digest
from askance_client.service.observable import time_limit_ms as time_limit_ms
from askance_client.service.open_side import CallFailed as CallFailed
from askance_client.service.open_side import OpenSide as OpenSide
