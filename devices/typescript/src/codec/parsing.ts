/** Parsing of untrusted bytes. */

import { RemoteProtocolError } from "../errors.js";
import { sha256 } from "../queries/index.js";
import { decode, type MessageKind } from "./wire.js";

/** A 64 x 64 table of 64-bit entries takes about 40 kB; a query of 4,096 nodes stays below this. */
export const MAX_MESSAGE_BYTES = 256 * 1024;

/** The name of a payload: SHA-256 of its bytes as they travelled. */
export function digestOf(payload: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(payload);
}

/**
 * Parse `data` as a message, whole and understood to the last field.
 *
 * @throws RemoteProtocolError: too long, no such message, or with fields that this version lacks.
 */
export function parse<M>(kind: MessageKind<M>, data: Uint8Array, limit = MAX_MESSAGE_BYTES): M {
  if (data.length > limit) {
    throw new RemoteProtocolError(
      `${kind.name}: expected at most ${limit} bytes, found ${data.length}`,
    );
  }
  return decode(kind, data);
}
