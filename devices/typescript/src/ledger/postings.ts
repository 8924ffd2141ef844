/**
 * The rows of a ledger, and the hash chain over them.
 *
 * Every member has a chain of its own per enrolment. A row's hash covers the hash before it in that
 * chain and all of the row's fields, as in the Python client's ledger; a request's payload and a
 * study's bytes are covered by their digests.
 */

import { fromHex, toBytes, toHex } from "../integers.js";
import { sha256, utf8 } from "../queries/canonical.js";

export const NO_HASH = "00".repeat(32);
const CONTEXT = utf8("askance posting v1\0");

/**
 * The kind of a row: a charged answer; a loss that the owner accepted; a repaired clock. An event
 * has its time and nano-nats only, and empty bytes elsewhere.
 */
export type PostingKind = "answer" | "loss" | "clock";

/**
 * A row. `place` is its number in the ledger, from 1, without a gap; digests, enrolment and hash
 * are hexadecimal digits.
 */
export interface Posting {
  readonly place: number;
  readonly member: string;
  readonly enrolment: string;
  readonly sequence: number;
  readonly kind: PostingKind;
  readonly atS: number;
  readonly nanoNats: bigint;
  readonly request: string;
  readonly study: string;
  readonly question: string;
  readonly symbol: Uint8Array;
  readonly report: Uint8Array;
  readonly weight: number;
  readonly hash: string;
}

/** The hash of a row after a row with the hash `before` in the same chain. */
export async function postingHash(row: Omit<Posting, "hash">, before: string): Promise<string> {
  const fields = [
    utf8(String(row.place)),
    utf8(row.member),
    fromHex(row.enrolment),
    utf8(String(row.sequence)),
    utf8(row.kind),
    utf8(String(row.atS)),
    utf8(String(row.nanoNats)),
    fromHex(row.request),
    fromHex(row.study),
    fromHex(row.question),
    row.symbol,
    row.report,
    ...(row.weight ? [utf8(String(row.weight))] : []),
  ];
  const parts = fields.flatMap((field) => [toBytes(field.length, 8), field]);
  return toHex(await sha256(CONTEXT, fromHex(before), ...parts));
}
