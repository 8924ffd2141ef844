/** Possible answers of a randomizer and their exact chances, for each truth. */

import {
  Channel,
  COIN_SPACE,
  HadamardSign,
  HypercubeResponse,
  KaryResponse,
  LinearHashing,
  RandomCodebook,
  SignedSubsetSelection,
  SubsetSelection,
  type Randomizer,
} from "askance-client/index.js";

import type { Chance } from "./numbers.js";

const MOST_SHOWN = 8; // levels and answers of a table

/** Class of possible answers; of a table's answer `count` is 1. */
export interface AnswerClass {
  readonly name: string;
  readonly count: bigint;
  readonly chance: Chance;
}

const of = (coins: bigint, whole = COIN_SPACE): Chance => ({ of: coins, whole });

/** The chances of each answer (row) at each level (column); null for a large alphabet. */
export function table(randomizer: Randomizer): Chance[][] | null {
  const levels = Number(randomizer.levels);
  if (levels > MOST_SHOWN) {
    return null;
  }
  const each = (count: number, chance: (answer: number, level: number) => bigint, whole = COIN_SPACE) =>
    count > MOST_SHOWN
      ? null
      : Array.from({ length: count }, (_, answer) =>
          Array.from({ length: levels }, (__, level) => of(chance(answer, level), whole)),
        );
  if (randomizer instanceof Channel) {
    const rows = Array.from({ length: levels }, (_, level) => rowOf(randomizer, level));
    return each(Number(randomizer.reports), (answer, level) => rows[level]![answer]!);
  }
  if (randomizer instanceof KaryResponse) {
    const { own, other } = randomizer;
    return each(levels, (answer, level) => (answer === level ? own : other));
  }
  if (randomizer instanceof HadamardSign) {
    const { reports } = randomizer;
    const chance = (answer: number, level: number) => {
      const plus = randomizer.plusCoins(level, answer >> 1);
      return answer & 1 ? COIN_SPACE - plus : plus;
    };
    return each(Number(reports), chance, (COIN_SPACE * reports) / 2n);
  }
  return null;
}

/** The levels for which the classes differ by more than the place of the true value. */
export function truths(randomizer: Randomizer): number[] {
  const last = Number(randomizer.levels) - 1;
  if (randomizer instanceof HadamardSign || randomizer instanceof SignedSubsetSelection) {
    return [0, last];
  }
  return randomizer instanceof Channel ? [...new Set([0, (last + 1) >> 1, last])] : [0];
}

/** The classes of answers at a level; they are disjoint and cover the alphabet. */
export function classes(randomizer: Randomizer, level: number): AnswerClass[] {
  const parts = [...named(randomizer, level)];
  return parts.map(([name, count, coins]) => ({ name, count, chance: of(coins) }));
}

function* named(randomizer: Randomizer, level: number): Generator<[string, bigint, bigint]> {
  if (randomizer instanceof KaryResponse) {
    const others = BigInt(randomizer.cells - 1);
    yield ["the true value", 1n, randomizer.own];
    yield ["another value", others, others * randomizer.other];
  } else if (randomizer instanceof SubsetSelection) {
    const { cells, size, threshold } = randomizer;
    yield [`a set of ${size} with the true value`, choose(cells - 1, size - 1), threshold];
    yield [`a set of ${size} without it`, choose(cells - 1, size), COIN_SPACE - threshold];
  } else if (randomizer instanceof LinearHashing) {
    const [, modulus, other] = randomizer.parameters as [bigint, bigint, bigint];
    const rest = (modulus - 1n) * other;
    yield ["a hash that fits the true value", 0n, COIN_SPACE - rest];
    yield ["a hash that does not fit it", 0n, rest];
  } else if (randomizer instanceof HadamardSign) {
    const rows = randomizer.reports / 2n;
    if (level === 2 * randomizer.values) {
      yield ["any row and sign", 2n * rows, COIN_SPACE];
      return;
    }
    yield ["a row with the true sign", rows, randomizer.threshold];
    yield ["a row with the other sign", rows, COIN_SPACE - randomizer.threshold];
  } else if (randomizer instanceof SignedSubsetSelection) {
    const { values, size } = randomizer;
    const [, plus, either] = randomizer.ownCoins(level);
    const names =
      level === 2 * values
        ? ["position 0, +", "position 0, -", "not position 0"]
        : ["the true position and sign", "that position, the other sign", "not that position"];
    const coins = [plus, either - plus, COIN_SPACE - either];
    for (const [place, name] of names.entries()) {
      yield [`a set of ${size}: ${name}`, 0n, coins[place]!];
    }
  } else if (randomizer instanceof HypercubeResponse) {
    const [, radius, threshold] = randomizer.parameters as [bigint, bigint, bigint];
    yield [`signs of which at most ${radius} differ from the true ones`, 0n, threshold];
    yield ["other signs", 0n, COIN_SPACE - threshold];
  } else if (randomizer instanceof RandomCodebook) {
    const [, , , near, threshold] = randomizer.parameters as bigint[];
    yield [`one of the ${near} directions nearest to the true one`, 0n, threshold!];
    yield ["another direction", 0n, COIN_SPACE - threshold!];
  } else if (randomizer instanceof Channel) {
    const row = rowOf(randomizer, level);
    const most = row.reduce((a, b) => (a > b ? a : b));
    const likely = row.filter((entry) => 2n * entry >= most);
    const others = row.filter((entry) => 2n * entry < most);
    const sum = (entries: readonly bigint[]) => entries.reduce((a, b) => a + b, 0n);
    yield ["one of the likeliest answers", BigInt(likely.length), sum(likely)];
    if (others.length) {
      yield ["another answer", BigInt(others.length), sum(others)];
    }
  }
}

function rowOf({ entries, reports }: Channel, level: number): bigint[] {
  const symbols = Number(reports);
  return [...entries.slice(level * symbols, (level + 1) * symbols)];
}

function choose(n: number, k: number): bigint {
  let found = 1n;
  for (let i = 0; i < k; i++) {
    found = (found * BigInt(n - i)) / BigInt(i + 1);
  }
  return found;
}
