/**
 * Work on a member's record: the only code that reads one, or handles a value that follows from it.
 *
 * All of it runs in the timed part of an answer; the caller has the times, which are public:
 *
 *     prepare      take all coins; draw the stand-ins, from public defaults and coins of their own
 *     evaluate     read the record and compute the values; it may fail or hang
 *     fix          at T1: take the values that are ready, and the public default for the others
 *     draw         round, draw and encode, with the main coins
 *     end          at T2: give out what is drawn, and the stand-in for the rest
 *
 * Privacy: `fix` sees no coin of a draw, so what `draw` returns follows a mixture of the
 * randomizer's rows, which is eps-LDP exactly. A stand-in is given out only for a draw that was
 * missed at T2; docs/trusted-base.md bounds what that adds to eps.
 *
 * The steps run in different threads (`service/record_worker.ts`).
 */

import { InvalidRecord } from "../errors.js";
import { fromHex, toHex } from "../integers.js";
import type { Request } from "../messages.js";
import { QueryKind, type EncodedRecord, type Query, sha256 } from "../queries/index.js";
import { roundToLevels, type Coins, type Words } from "../randomizers/index.js";

/** A record as an application has it: values by field name. */
export type RawRecord = Readonly<Record<string, unknown>>;

/** A query's value on its grid: one number, or the components of a VECTOR query. */
export type Value = readonly bigint[];

/** Part of a request that its coins follow from. */
export interface Asked {
  readonly digest: string;
  readonly request: Request;
}

/** A request that is due, and the coins of its answer, or of its stand-in. */
export interface Work extends Asked {
  readonly words: Words;
}

/** The coins of an answer, in a number that the request fixes. No record is read. */
export function takeCoins(coins: Coins, { digest, request }: Asked): Words {
  return coins.words(fromHex(digest), request.coins);
}

/** Coins of a stand-in: others than those of the answer. */
export async function takeStandInCoins(coins: Coins, asked: Asked): Promise<Words> {
  const digest = toHex(await sha256(fromHex(asked.digest)));
  return takeCoins(coins, { digest, request: asked.request });
}

/** The report of the public default, for a draw that is missed. */
export function standIn({ request, words }: Work): Uint8Array {
  return randomize(request, publicDefault(request.query), words);
}

/**
 * The value of a record at a request's query.
 *
 * @throws InvalidRecord: it cannot be rounded and randomized, being outside the query's range.
 */
export function evaluate({ query }: Request, record: EncodedRecord): Value {
  const vector = query.kind === QueryKind.VECTOR;
  const parts = vector ? query.evaluateVector(record) : [query.evaluate(record)];
  const expected = vector ? query.components : 1;
  if (
    parts.length !== expected ||
    !parts.every((part) => query.low <= part && part <= query.high)
  ) {
    throw new InvalidRecord("value: expected one in the query's range, got another");
  }
  return parts;
}

/** The symbol: a pure function of the value's level and of coins; those that round are the last. */
export function randomize(request: Request, value: Value, words: Words): Uint8Array {
  const { query, randomizer } = request;
  const [coins, rounding] = [words.subarray(0, randomizer.coins), words.subarray(randomizer.coins)];
  const { low, high } = query;
  const level =
    query.kind === QueryKind.VECTOR
      ? randomizer.vectorLevel(value, low, high, rounding)
      : query.kind === QueryKind.REAL
        ? roundToLevels(value[0]!, low, high, randomizer.levels, rounding[0]!)
        : value[0]!;
  return randomizer.randomize(level, coins);
}

/** The draws of one turn, in the thread that draws. */
export class Drawing {
  readonly #values = new Map<string, Value>();

  constructor(private readonly works: readonly Work[]) {}

  /** Keep a value that is ready. */
  put(digest: string, value: Value): void {
    this.#values.set(digest, value);
  }

  /** Fix the values that are ready, and the public default for the others; then draw. */
  draw(): Map<string, Uint8Array> {
    const fixed = this.works.map(
      ({ digest, request }) => this.#values.get(digest) ?? publicDefault(request.query),
    );
    return new Map(
      this.works.map(({ digest, request, words }, at) => [
        digest,
        randomize(request, fixed[at]!, words),
      ]),
    );
  }
}

/** The value of a record on which a query cannot be evaluated. */
function publicDefault(query: Query): Value {
  return new Array(query.kind === QueryKind.VECTOR ? query.components : 1).fill(query.default);
}
