/** Exchange between a device and its aggregator: its limits, and what holds of a response. */

import { DIGEST_BYTES, MAX_MESSAGE_BYTES, parse } from "../codec/index.js";
import { RemoteProtocolError } from "../errors.js";
import { AckStatus } from "../messages.js";
import type { CheckInResponse } from "../protos/askance_protos/v1/exchange_pb.js";
import { CheckInResponseSchema, RequestSchema } from "../protos/askance_protos/v1/exchange_pb.js";
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

/**
 * An aggregator's response. `acknowledgedSequence` is the highest sequence number in the device's
 * reports that was made durable; 0: none.
 *
 * @throws RemoteProtocolError: no response, or more than an exchange may have.
 */
export function decodeResponse(data: Uint8Array): CheckInResponse {
  const message = parse(CheckInResponseSchema, data, MAX_RESPONSE_BYTES);
  checkCount("acks", message.acks.length, MAX_REPORTS);
  checkCount("studies", message.studies.length, MAX_STUDIES);
  checkCount("requests", message.requests.length, MAX_REQUESTS);
  checkCount("entries of tables", entriesOf(message.requests), MAX_ENTRIES);
  for (const { requestDigest, status } of message.acks) {
    checkDigest("an acknowledged request", requestDigest);
    if (AckStatus[status] === undefined) {
      throw new RemoteProtocolError(`exchange: expected a known status, found number ${status}`);
    }
  }
  return message;
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
