/** Examination of a study or a request by its bytes alone, done once for each distinct payload. */

import { LEAST_LOSS } from "../accounting/index.js";
import { decodeRequest, decodeStudy, studyOf, verifyStudy } from "../codec/index.js";
import { AskanceError, InvalidParameter, InvalidQuery } from "../errors.js";
import { toBytes, toHex } from "../integers.js";
import type { Repeat, Request, SignedStudy, StudyTerms } from "../messages.js";
import { Reason, Refusal } from "../messages.js";
import { sha256, utf8 } from "../queries/canonical.js";
import { QueryKind, type Query } from "../queries/index.js";
import { MAX_ROUNDING_LEVELS, type Randomizer } from "../randomizers/index.js";

const MAX_BYTES = 2 << 20; // of what is remembered
const MIN_KNOWN_BYTES = 512; // counted for a payload at least
const PER_ENTRY = 1 / 12; // bytes counted for an entry of a table
const EPOCH = utf8("askance epoch v1\0");

/** A study whose signature holds. `digest` and `publicKey` are 64 hexadecimal digits. */
export interface ExaminedStudy {
  readonly digest: string;
  readonly terms: StudyTerms;
  readonly publicKey: string;
  readonly study: Uint8Array;
  readonly copies: readonly ExaminedStudy[]; // the same bytes, signed by other analysts
}

/**
 * A request that can be answered, and what an answer costs.
 *
 * `nanoNats` is the exact privacy loss of its randomizer, rounded up; `question` names the query
 * and the randomizer together, and the epoch, under which an answer is frozen. `weight` is a public
 * bound of the work of an answer: of the query's evaluation and of one draw.
 */
export interface ExaminedRequest {
  readonly digest: string;
  readonly request: Request;
  readonly nanoNats: bigint;
  readonly question: string;
  readonly weight: number;
}

/** Examination of a payload: the digest of the study that it names, or why it names none. */
export interface Known {
  readonly digest: string;
  readonly named: string | Refusal;
  readonly asked: ExaminedRequest | Refusal | null; // null: not examined yet
}

/**
 * Examines bytes and remembers the latest `capacity` examinations, of large messages fewer. It may
 * be shared by the devices of a process.
 */
export class Examiner {
  readonly #studies: Latest<ExaminedStudy | Refusal>;
  readonly #requests: Latest<Known>;

  constructor(capacity = 16) {
    this.#studies = new Latest(capacity);
    this.#requests = new Latest(capacity);
  }

  /** The study's terms, or why it is none. */
  async study(signed: SignedStudy): Promise<ExaminedStudy | Refusal> {
    const parts = [signed.publicKey, signed.signature, signed.study];
    const key = toHex(await sha256(...parts.flatMap((part) => [toBytes(part.length, 8), part])));
    const found = this.#studies.get(key);
    if (found !== undefined) {
      return found;
    }
    const examined = await examineStudy(signed);
    this.#studies.remember(key, examined, signed.study.length + MIN_KNOWN_BYTES);
    return examined;
  }

  /** Examine a payload by its digest and the study that it names. */
  async known(payload: Uint8Array): Promise<Known> {
    const digest = toHex(await sha256(payload));
    const found = this.#requests.get(digest);
    if (found !== undefined) {
      return found;
    }
    const known = { digest, named: nameIn(payload), asked: null };
    this.#requests.remember(digest, known, Math.max(payload.length, MIN_KNOWN_BYTES));
    return known;
  }

  /** The request in a payload under a study, or why it is none. */
  async request(payload: Uint8Array, study: ExaminedStudy): Promise<ExaminedRequest | Refusal> {
    const known = await this.known(payload);
    if (known.asked !== null && known.named === study.digest) {
      return known.asked;
    }
    const asked = await examineRequest(payload, known.digest, study);
    if (known.named === study.digest) {
      const entries = asked instanceof Refusal ? 0 : asked.request.randomizer.parameters.length;
      const size = Math.max(payload.length, MIN_KNOWN_BYTES) + entries * PER_ENTRY;
      this.#requests.remember(known.digest, { ...known, asked }, size);
    }
    return asked;
  }
}

/** The latest values that were remembered, bounded in number and in bytes. */
export class Latest<V> {
  readonly #known = new Map<string, { value: V; size: number }>();
  #bytes = 0;

  constructor(private readonly capacity: number) {}

  get(key: string): V | undefined {
    return this.#known.get(key)?.value;
  }

  remember(key: string, value: V, size = 0): void {
    this.#forget(key);
    this.#known.set(key, { value, size });
    this.#bytes += size;
    while (this.#known.size > this.capacity || this.#bytes > MAX_BYTES) {
      this.#forget(this.#known.keys().next().value!);
    }
  }

  #forget(key: string): void {
    this.#bytes -= this.#known.get(key)?.size ?? 0;
    this.#known.delete(key);
  }
}

async function examineStudy(signed: SignedStudy): Promise<ExaminedStudy | Refusal> {
  if (!(await verifyStudy(signed))) {
    return new Refusal(Reason.BAD_SIGNATURE, "expected the analyst's signature over the study");
  }
  try {
    const terms = decodeStudy(signed.study);
    const digest = toHex(await sha256(signed.study));
    const publicKey = toHex(signed.publicKey);
    return { digest, terms, publicKey, study: signed.study, copies: [] };
  } catch (error) {
    return new Refusal(Reason.MALFORMED, refusalOf(error).message);
  }
}

async function examineRequest(
  payload: Uint8Array,
  digest: string,
  study: ExaminedStudy,
): Promise<ExaminedRequest | Refusal> {
  const { schema, repeat, fields } = study.terms;
  let request: Request;
  try {
    request = decodeRequest(payload, schema);
  } catch (error) {
    return refusalOf(error);
  }
  if (toHex(request.studyDigest) !== study.digest) {
    return new Refusal(Reason.UNKNOWN_STUDY, "expected a request of this study, found another's");
  }
  const { epoch, query, randomizer } = request;
  if (repeat === undefined ? epoch !== 0 : !repeat.has(epoch)) {
    return new Refusal(Reason.WRONG_EPOCH, `epoch: expected one signed, got ${epoch}`);
  }
  const field = [...query.fieldsUsed].find((name) => !fields.includes(name));
  if (field !== undefined) {
    return new Refusal(Reason.FIELD_NOT_ALLOWED, `expected fields that the study signs: "${field}"`);
  }
  const mismatch = mismatchOf(query, randomizer);
  if (mismatch !== null) {
    return new Refusal(Reason.LEVELS_MISMATCH, mismatch);
  }
  const { nanoNats } = randomizer.loss;
  if (nanoNats < LEAST_LOSS) {
    const message = `loss: expected ${LEAST_LOSS} nano-nats or more, got ${nanoNats}`;
    return new Refusal(Reason.INVALID_RANDOMIZER, message);
  }
  const asked = await sha256(await query.digest(schema), randomizer.canonical);
  const question = toHex(await questionOf(asked, repeat, epoch));
  return { digest, request, nanoNats, question, weight: query.weight + randomizer.drawCost };
}

/** The key of a frozen answer: of query and randomizer, and of the epoch's length and index. */
async function questionOf(
  digest: Uint8Array,
  repeat: Repeat | undefined,
  epoch: number,
): Promise<Uint8Array> {
  if (repeat === undefined) {
    return digest;
  }
  return sha256(EPOCH, digest, toBytes(repeat.everyDays, 8), toBytes(epoch, 8));
}

/** Why the query's values are not the randomizer's levels; null if they are. */
function mismatchOf(query: Query, randomizer: Randomizer): string | null {
  const { vectorComponents, levels } = randomizer;
  if (query.kind === QueryKind.VECTOR) {
    return vectorComponents === query.components
      ? null
      : `expected vectors of ${query.components} components, found ${vectorComponents}`;
  }
  if (vectorComponents) {
    return "expected a randomizer of levels, found one of vectors";
  }
  if (query.kind === QueryKind.REAL) {
    return levels <= MAX_ROUNDING_LEVELS ? null : "expected fewer levels";
  }
  return levels === BigInt(query.cells) ? null : `expected ${query.cells} levels, found ${levels}`;
}

function nameIn(payload: Uint8Array): string | Refusal {
  try {
    return toHex(studyOf(payload));
  } catch (error) {
    return refusalOf(error);
  }
}

function refusalOf(error: unknown): Refusal {
  if (!(error instanceof AskanceError)) {
    throw error;
  }
  const reason =
    error instanceof InvalidQuery
      ? Reason.INVALID_QUERY
      : error instanceof InvalidParameter
        ? Reason.INVALID_RANDOMIZER
        : Reason.MALFORMED;
  return new Refusal(reason, error.message);
}
