/** Requests and reports on the wire. */

import { RemoteProtocolError } from "../errors.js";
import { Reason, Refusal, roundingCoins, type Report, type Request } from "../messages.js";
import type { Report as ReportMessage } from "../protos/askance_protos/v1/exchange_pb.js";
import { ReportSchema, RequestSchema } from "../protos/askance_protos/v1/exchange_pb.js";
import type { Schema } from "../queries/index.js";
import { parse } from "./parsing.js";
import { decodeQuery } from "./queries.js";
import { decodeRandomizer } from "./randomizers.js";
import { encode } from "./wire.js";

export const DIGEST_BYTES = 32;
const MAX_REPORT_BYTES = 16 * 1024; // the longest set takes 8 kB

/**
 * The digest of the study that a request's payload names.
 *
 * @throws RemoteProtocolError: not a request, or one without a study.
 */
export function studyOf(payload: Uint8Array): Uint8Array {
  const { studyDigest } = parse(RequestSchema, payload);
  if (studyDigest.length !== DIGEST_BYTES) {
    throw new RemoteProtocolError(`request: expected a study digest of ${DIGEST_BYTES} bytes`);
  }
  return studyDigest;
}

/**
 * The request in `payload`, its query typed anew by the study's `schema`.
 *
 * @throws RemoteProtocolError: not a request.
 * @throws InvalidQuery: its query is none over this schema.
 * @throws InvalidParameter: its randomizer is none, or reveals without bound.
 */
export function decodeRequest(payload: Uint8Array, schema: Schema): Request {
  const message = parse(RequestSchema, payload);
  const query = decodeQuery(message.query, schema);
  const randomizer = decodeRandomizer(message.randomizer ?? { family: { case: undefined } });
  const coins = randomizer.coins + roundingCoins(query, randomizer);
  return { ...message, query, randomizer, coins };
}

/**
 * The bytes that a device stores and sends, now and at every retry.
 *
 * A refusal's message stays behind: its reason is all that leaves.
 */
export function encodeReport(report: Report): Uint8Array {
  const { outcome } = report;
  return encode(ReportSchema, {
    ...report,
    outcome:
      outcome instanceof Refusal
        ? { case: "refusal", value: { reason: outcome.reason } }
        : { case: "symbol", value: outcome },
  });
}

/**
 * The report in `data`; whether its symbol is in the alphabet is the asker's to check.
 *
 * @throws RemoteProtocolError: not a report, an unknown reason, a digest of the wrong length.
 */
export function decodeReport(data: Uint8Array): Report {
  const message = parse(ReportSchema, data, MAX_REPORT_BYTES);
  if (message.requestDigest.length !== DIGEST_BYTES) {
    throw new RemoteProtocolError(`report: expected a request digest of ${DIGEST_BYTES} bytes`);
  }
  return { ...message, outcome: decodeOutcome(message.outcome) };
}

function decodeOutcome(outcome: ReportMessage["outcome"]): Uint8Array | Refusal {
  switch (outcome.case) {
    case "symbol":
      return outcome.value;
    case "refusal": {
      const { reason } = outcome.value;
      if (Reason[reason] === undefined) {
        throw new RemoteProtocolError(`report: expected a known reason, found number ${reason}`);
      }
      return new Refusal(reason);
    }
    default:
      throw new RemoteProtocolError("report: expected a symbol or a refusal, found neither");
  }
}
