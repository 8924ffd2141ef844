/**
 * Calls by the Connect protocol's unary form: one POST of a message, its credentials in headers.
 *
 * The message is `application/proto`; an error is JSON, `{"code": ..., "message": ...}`. Nothing of
 * an answer is parsed before it is known to be whole and within its limit.
 */

import { AskanceError, InvalidParameter } from "../errors.js";
import { fromHex, joined } from "../integers.js";
import { printable } from "../printable.js";
import { utf8 } from "../queries/canonical.js";
import { SOFTWARE } from "../version.js";
import { MAX_RESPONSE_BYTES, PROTOCOL, SERVICE } from "./exchange.js";
import type { Identity } from "./identity.js";
import { CALL_TIMEOUT_MS } from "./observable.js";

const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);
const MAX_REASON_BYTES = 4096;
const RETRY_HEADER = "trailer-askance-retry-after-ms";
const CODE = /^[a-z_]{1,32}$/;
const RETRY = /^[0-9]{1,9}$/;

/** Credentials of a call, as headers. */
export type Credentials = Readonly<Record<string, string>>;

/** Response of a transport: a status, a header's value, and at most `limit` bytes and one. */
export interface Answer {
  readonly status: number;
  readonly body: Uint8Array;
  header(name: string): string | null;
}

/** Sends one POST; a failure to reach the aggregator is thrown. */
export type Post = (
  url: string,
  headers: Credentials,
  body: Uint8Array,
  limit: number,
) => Promise<Answer>;

/** A call that was refused, or did not reach the aggregator. */
export class CallFailed extends AskanceError {
  /** @param retryMs when the aggregator asks to be called again; 0: it does not say. */
  constructor(
    readonly code: string,
    details: string,
    readonly retryMs = 0,
  ) {
    super(`${code}: ${details}`);
  }
}

/** Credentials of a device's check-in. */
export function deviceCredentials({ deviceId, token }: Identity): Credentials {
  return { "askance-device-bin": base64(fromHex(deviceId)), "askance-token-bin": base64(token) };
}

/** Credentials of an enrolment under an operator's token. */
export function enrolmentCredentials(token: string): Credentials {
  return { "askance-enrolment-bin": base64(utf8(token)) };
}

/** An aggregator at an address such as https://HOST:PORT. */
export class Aggregator {
  readonly #address: string;

  /**
   * @param address its scheme, host and port; credentials are sent there.
   * @throws InvalidParameter: it is none, or they would travel in the clear to another machine.
   */
  constructor(
    address: string,
    private readonly post: Post = postByFetch,
  ) {
    const url = URL.canParse(address) ? new URL(address) : null;
    const isHere = url?.protocol === "http:" && LOOPBACK.has(url.hostname);
    if (url?.protocol !== "https:" && !isHere) {
      const expected = "expected https://HOST:PORT (http:// only to this machine)";
      throw new InvalidParameter(`aggregator: ${expected}, got ${printable(address)}`);
    }
    this.#address = address.replace(/\/+$/, "");
  }

  /**
   * Call a method with one message each way.
   *
   * @throws CallFailed: refused, not reached, or answered by something else.
   */
  async call(method: string, message: Uint8Array, credentials: Credentials): Promise<Uint8Array> {
    const headers = {
      "content-type": "application/proto",
      "connect-protocol-version": "1",
      "connect-timeout-ms": String(CALL_TIMEOUT_MS),
      "askance-protocol": String(PROTOCOL),
      "askance-software": SOFTWARE,
      ...credentials,
    };
    const url = `${this.#address}/${SERVICE}/${method}`;
    let answer: Answer;
    try {
      answer = await this.post(url, headers, message, MAX_RESPONSE_BYTES);
    } catch (error) {
      const reason = error instanceof Error ? error.message : "no reason given";
      throw new CallFailed("unavailable", `${printable(this.#address)} was not reached (${reason})`);
    }
    if (answer.body.length > MAX_RESPONSE_BYTES) {
      throw new CallFailed("resource_exhausted", `expected at most ${MAX_RESPONSE_BYTES} bytes`);
    }
    if (answer.status === 200 && answer.header("content-type") === "application/proto") {
      return answer.body;
    }
    throw failureOf(answer);
  }
}

/** Post by `fetch`, without cookies and without following redirects. */
export const postByFetch: Post = async (url, headers, body, limit) => {
  const response = await fetch(url, {
    method: "POST",
    headers,
    body: new Uint8Array(body),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader!.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > limit) {
      await reader!.cancel();
      break;
    }
  }
  const { status, headers: found } = response;
  return { status, body: joined(parts), header: (name) => found.get(name) };
};

function failureOf(answer: Answer): CallFailed {
  const retry = answer.header(RETRY_HEADER) ?? "";
  const retryMs = RETRY.test(retry) ? Number(retry) : 0;
  try {
    const text = new TextDecoder().decode(answer.body.slice(0, MAX_REASON_BYTES));
    const { code, message } = JSON.parse(text) as { code?: unknown; message?: unknown };
    if (typeof code === "string" && CODE.test(code)) {
      return new CallFailed(code, typeof message === "string" ? printable(message) : "no details", retryMs);
    }
  } catch {
    // Not an aggregator's error.
  }
  return new CallFailed("unknown", `expected an aggregator, got HTTP ${answer.status}`, retryMs);
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
