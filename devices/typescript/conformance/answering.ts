/** Answers in place, for the kit and for tests, which have no threads. */

import type { Worked } from "../src/device/core.js";
import { Drawing, evaluate, takeCoins, type Asked } from "../src/device/record_work.js";
import type { EncodedRecord } from "../src/queries/index.js";
import type { Coins } from "../src/randomizers/index.js";

/**
 * Do all steps in place, for as long as they take: no draw is late, so none has a stand-in.
 *
 * @param read the record, read anew for every request; if it fails the answer is the default's.
 */
export async function answer(
  read: () => EncodedRecord,
  coins: Coins,
  asked: readonly Asked[],
): Promise<Worked> {
  const works = asked.map((one) => ({ ...one, words: takeCoins(coins, one) }));
  const drawing = new Drawing(works);
  for (const { digest, request } of works) {
    try {
      drawing.put(digest, evaluate(request, read()));
    } catch {
      continue;
    }
  }
  return { symbols: drawing.draw(), missed: 0 };
}
