/** Exchange between a device and its aggregator, as values and as bytes. */

import { DIGEST_BYTES, MAX_MESSAGE_BYTES, encode, parse } from "../codec/index.js";
import { RemoteProtocolError } from "../errors.js";
import { AckStatus, type SignedStudy } from "../messages.js";
import {
  CheckInRequestSchema,
  CheckInResponseSchema,
  EnrolRequestSchema,
  EnrolResponseSchema,
  RequestSchema,
} from "../protos/askance_protos/v1/exchange_pb.js";
import { MAX_LEVELS, MAX_SYMBOLS } from "../randomizers/index.js";

/** Version of the exchange: neither side sends what it lacks, each refuses what it does not know. */
export const PROTOCOL = 1;
export const SERVICE = "askance.v1.Devices";
export const MAX_REPORTS = 64; // in one message
export const MAX_REQUESTS = 64;
export const MAX_STUDIES = 64;
export const MAX_KNOWN_STUDIES = 256;
/** Entries of tables in one message, which take long to examine: twice as many as one table has. */
const MAX_ENTRIES = 1 << 20;
export const MAX_CHECK_IN_BYTES = 128 * 1024;
/** Most bytes of reports in a check-in, unless one alone has more. */
export const BATCH_BYTES = MAX_CHECK_IN_BYTES / 4;
/** Room for the longest request or study and all that may stand beside it. */
export const MAX_RESPONSE_BYTES = 4 * MAX_MESSAGE_BYTES;

/** Reports of a device, and the studies that it knows (in its first message). */
export interface CheckIn {
  readonly reports: readonly Uint8Array[];
  readonly knownStudies: readonly Uint8Array[];
}

/** Response of an aggregator: acknowledgements, new studies, new requests. */
export interface Response {
  readonly acks: readonly (readonly [Uint8Array, AckStatus])[];
  readonly studies: readonly SignedStudy[];
  readonly requests: readonly Uint8Array[];
  readonly retryAfterMs: number;
  /** The highest sequence number in the device's reports that was made durable; 0: none. */
  readonly acknowledgedSequence: bigint;
}

/** The bytes of what a device says. */
export function encodeCheckIn(message: CheckIn): Uint8Array<ArrayBuffer> {
  return encode(CheckInRequestSchema, message);
}

/** The bytes of an enrolment: devices, each as its id and the SHA-256 of its token. */
export function encodeEnrol(
  devices: readonly { deviceId: Uint8Array; tokenDigest: Uint8Array }[],
): Uint8Array<ArrayBuffer> {
  return encode(EnrolRequestSchema, { devices });
}

/** The numbers of new devices and of devices that were enrolled already. */
export function decodeEnrolled(data: Uint8Array): { enrolled: bigint; known: bigint } {
  const { enrolled, known } = parse(EnrolResponseSchema, data);
  return { enrolled, known };
}

/**
 * An aggregator's response.
 *
 * @throws RemoteProtocolError: no response, or more than an exchange may have.
 */
export function decodeResponse(data: Uint8Array): Response {
  const message = parse(CheckInResponseSchema, data, MAX_RESPONSE_BYTES);
  checkCount("acks", message.acks.length, MAX_REPORTS);
  checkCount("studies", message.studies.length, MAX_STUDIES);
  checkCount("requests", message.requests.length, MAX_REQUESTS);
  checkCount("entries of tables", entriesOf(message.requests), MAX_ENTRIES);
  return {
    acks: message.acks.map((ack) => decodeAck(ack.requestDigest, ack.status)),
    studies: message.studies,
    requests: message.requests,
    retryAfterMs: message.retryAfterMs,
    acknowledgedSequence: message.acknowledgedSequence,
  };
}

/** Count entries without laying a table out; bytes that are no request have none. */
function entriesOf(requests: readonly Uint8Array[]): number {
  let total = 0;
  for (const payload of requests) {
    try {
      const { randomizer } = parse(RequestSchema, payload);
      if (randomizer?.family.case === "table") {
        const { levels, symbols } = randomizer.family.value;
        total += Math.min(levels * symbols, MAX_LEVELS * MAX_SYMBOLS);
      }
    } catch {
      continue; // refused when it is examined
    }
  }
  return total;
}

function decodeAck(digest: Uint8Array, status: number): [Uint8Array, AckStatus] {
  checkDigest("an acknowledged request", digest);
  if (AckStatus[status] === undefined) {
    throw new RemoteProtocolError(`exchange: expected a known status, found number ${status}`);
  }
  return [digest, status];
}

/** Throw RemoteProtocolError if a message has more items than its limit. */
export function checkCount(of: string, count: number, limit: number): void {
  if (count > limit) {
    throw new RemoteProtocolError(`exchange: expected at most ${limit} ${of}, found ${count}`);
  }
}

/** Throw RemoteProtocolError unless this has a digest's length. */
export function checkDigest(of: string, digest: Uint8Array): void {
  if (digest.length !== DIGEST_BYTES) {
    throw new RemoteProtocolError(`exchange: expected a digest of ${DIGEST_BYTES} bytes for ${of}`);
  }
}
