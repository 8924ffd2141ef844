/** Identity of a device to its aggregator. It decides nothing about privacy. */

import { sha256, utf8 } from "../queries/canonical.js";
import { fromHex, toHex } from "../integers.js";
import type { Enrolment } from "../protos/askance_protos/v1/exchange_pb.js";

const DERIVED_ID_BYTES = 16;
const HMAC = { name: "HMAC", hash: "SHA-256", length: 256 } as const;

/** The name that a device is enrolled under, in hexadecimal digits, and the secret that proves it. */
export interface Identity {
  readonly deviceId: string;
  readonly token: Uint8Array;
}

/**
 * Secret of a device's storage, from which every identity is derived as in the Python client.
 *
 * Privacy: the secret is a key of HMAC-SHA-256 and never sent. Each value that is sent is an output
 * of HMAC for an input of its own, so that a token that was sent reveals neither the secret nor any
 * other token or id.
 */
export class Secret {
  constructor(private readonly key: CryptoKey) {}

  /** A new key, which no code can read (of a browser's storage). */
  static async makeKey(): Promise<CryptoKey> {
    return crypto.subtle.generateKey(HMAC, false, ["sign"]);
  }

  /** The secret of 32 bytes (of a file). */
  static async of(bytes: Uint8Array): Promise<Secret> {
    const copy = new Uint8Array(bytes);
    return new Secret(await crypto.subtle.importKey("raw", copy, HMAC, false, ["sign"]));
  }

  /** The identity of a storage's one device. */
  async device(): Promise<Identity> {
    return this.#identity("askance device", "");
  }

  /** The identity of the member of a name. */
  async member(name: string): Promise<Identity> {
    return this.#identity("askance member", `\0${name}`);
  }

  async #identity(kind: string, suffix: string): Promise<Identity> {
    const [id, token] = [
      await this.#sign(`${kind} id v1${suffix}`),
      await this.#sign(`${kind} token v1${suffix}`),
    ];
    return { deviceId: toHex(id.slice(0, DERIVED_ID_BYTES)), token };
  }

  async #sign(text: string): Promise<Uint8Array> {
    return new Uint8Array(await crypto.subtle.sign("HMAC", this.key, utf8(text)));
  }
}

/** A device as an aggregator is to know it: the token itself stays on the device. */
export async function enrolmentOf({ deviceId, token }: Identity): Promise<Enrolment> {
  return { deviceId: fromHex(deviceId), tokenDigest: await sha256(token) };
}
