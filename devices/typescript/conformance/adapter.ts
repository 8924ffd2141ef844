/** Adapter of this package: the kit's cases, answered by its modules. */

import { charge } from "../src/accounting/index.js";

/** JSON as the kit has it: no number above 2^53. */
export type Json = { readonly [name: string]: any };

type Kind = (given: Json) => Json | Promise<Json>;

export const KINDS: { [kind: string]: Kind } = {
  loss: (given) => ({
    nano_nats: String(charge(BigInt(given.numerator), BigInt(given.denominator))),
  }),
};

/** The answer to one case. */
export async function answer(kind: string, given: Json): Promise<Json> {
  const found = KINDS[kind];
  return found === undefined ? { unsupported: kind } : found(given);
}
