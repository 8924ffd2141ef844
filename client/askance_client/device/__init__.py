"""The device's core, without I/O: a request comes in, a report or a refusal goes out.

Its rules: trust no other party. The loss is computed from the table that was sent; the study must
be signed by a key its owner pinned; the policy and the ledger decide whether it may be answered.
All of that is settled before the record is looked at, so that charges and refusals are functions of
the history of requests only.

`examination` is a pure function of bytes and is done once for each distinct study and request;
`policy` is what the device's owner allows; `settling` decides from these and the ledger, and has
no access to records or coins; `record_work` reads the record and draws the symbols, in the timed
part of an answer; `core` commits finished symbols.
"""

from askance_client.device.core import Device as Device
from askance_client.device.core import TooManyRefusals as TooManyRefusals
from askance_client.device.core import Turn as Turn
from askance_client.device.examination import ExaminedRequest as ExaminedRequest
from askance_client.device.examination import ExaminedStudy as ExaminedStudy
from askance_client.device.examination import Examiner as Examiner
from askance_client.device.policy import Policy as Policy
from askance_client.device.record_work import MemberRecord as MemberRecord
from askance_client.device.record_work import RecordWork as RecordWork
