/** Questions, answers and studies in plain words, as on the owner's page of the Python client. */

import {
  Kind,
  Op,
  printable,
  Query,
  QueryKind,
  SubsetSelection,
  type ExpressionNode,
  type Request,
} from "askance-client/index.js";

import { classes, table, truths } from "./laws.js";
import { fixed, type Chance } from "./numbers.js";

const MOST_DEPTH = 8;
const MOST_ITEMS = 8;
const MOST_LEVELS = 64; // of a randomizer whose likeliest levels are named
const INFIX: Partial<Record<Op, string>> = {
  [Op.ADD]: "+",
  [Op.SUBTRACT]: "-",
  [Op.MULTIPLY]: "*",
  [Op.LESS]: "<",
  [Op.LESS_EQUAL]: "<=",
  [Op.EQUAL]: "==",
  [Op.AND]: "&",
  [Op.OR]: "|",
};

/** A question with its possible answers and their chances for each truth. */
export interface ExplainedQuestion {
  readonly question: string;
  readonly nanoNats: bigint;
  readonly rounded: boolean;
  readonly truths: readonly string[];
  readonly answers: readonly {
    readonly name: string;
    readonly count: bigint; // 0: it depends on the truth, or is not shown
    readonly chances: readonly (Chance | null)[];
  }[];
}

/** Explain a request. */
export function explained(request: Request): ExplainedQuestion {
  const { query, randomizer } = request;
  const rounded = query.kind === QueryKind.REAL || query.kind === QueryKind.VECTOR;
  const { nanoNats } = randomizer.loss;
  return { question: question(query), nanoNats, rounded, ...law(request) };
}

function law({ query, randomizer }: Request): Pick<ExplainedQuestion, "truths" | "answers"> {
  const levels = Number(randomizer.levels);
  const found = table(randomizer);
  if (found !== null) {
    const named = found.map((row) => likeliest(query, row, levels));
    const distinct = new Set(named).size === named.length;
    const names = distinct ? named : named.map((name, i) => `answer ${i}, likeliest for ${name}`);
    return {
      truths: Array.from({ length: levels }, (_, level) => levelName(query, level, levels)),
      answers: found.map((chances, i) => ({ name: names[i]!, count: 1n, chances })),
    };
  }
  const shown = truths(randomizer);
  const rows = new Map<string, { counts: Set<bigint>; chances: (Chance | null)[] }>();
  for (const [place, level] of shown.entries()) {
    for (const { name, count, chance } of classes(randomizer, level)) {
      const row = rows.get(name) ?? { counts: new Set(), chances: shown.map(() => null) };
      rows.set(name, row);
      row.counts.add(count);
      row.chances[place] = chance;
    }
  }
  return {
    truths: shown.length > 1 ? shown.map((level) => levelName(query, level, levels)) : ["any value"],
    answers: [...rows].map(([name, { counts, chances }]) => {
      return { name, count: counts.size === 1 ? [...counts][0]! : 0n, chances };
    }),
  };
}

function likeliest(query: Query, row: readonly Chance[], levels: number): string {
  const most = row.reduce((a, b) => (a.of >= b.of ? a : b)).of;
  const names = row.flatMap(({ of }, level) => (of === most ? [levelName(query, level, levels)] : []));
  return listed(names);
}

/** A query as a question. */
export function question(query: Query): string {
  const value = query.expression;
  const rendered = printable(render(value));
  const text = rendered.startsWith("(") ? rendered.slice(1, -1) : rendered;
  const yours = value.op === Op.FIELD ? `your ${text}` : text;
  switch (query.kind) {
    case QueryKind.CATEGORY:
      return `Which of ${listed(cellNames(query))} is ${yours}?`;
    case QueryKind.SIGNED:
      return `Which position of ${query.high / 2n}, with which sign, is ${text}?`;
    case QueryKind.VECTOR:
      return `Which signs have ${query.components} numbers, ${span(query)}: ${text}?`;
    case QueryKind.REAL:
      if (value.type.kind !== Kind.BOOLEAN) {
        return `What is ${yours}, ${span(query)}?`;
      }
  }
  return `Yes or no: ${text}?`;
}

/** A randomized answer: the values that it makes likeliest. */
export function answer({ query, randomizer }: Request, symbol: Uint8Array): string {
  const levels = Number(randomizer.levels);
  const hexadecimal = [...symbol].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (levels > MOST_LEVELS) {
    return `${hexadecimal} (randomized, ${randomizer.name})`;
  }
  if (randomizer instanceof SubsetSelection) {
    const names = randomizer.itemsOf(symbol).map((level) => levelName(query, level, levels));
    return `${listed(names)} (randomized)`;
  }
  const row = table(randomizer)?.[Number(`0x${hexadecimal}`)];
  return row === undefined
    ? `${hexadecimal} (randomized, ${randomizer.name})`
    : `${likeliest(query, row, levels)} (randomized)`;
}

function levelName(query: Query, level: number, levels: number): string {
  switch (query.kind) {
    case QueryKind.PREDICATE:
      return ["no", "yes"][level]!;
    case QueryKind.CATEGORY:
      return printable(cellNames(query)[level]!);
    case QueryKind.REAL: {
      const steps = BigInt(levels - 1);
      const value = query.low * steps + BigInt(level) * (query.high - query.low); // over steps
      if (value === query.default * steps && query.default > query.expression.type.high) {
        return "no value";
      }
      return decimal(value, steps << BigInt(query.frac));
    }
    case QueryKind.SIGNED:
      return BigInt(level) === query.high ? "none" : `${"+-"[level % 2]}1 at ${level >> 1}`;
    case QueryKind.VECTOR:
      return Array.from({ length: query.components }, (_, i) => "-+"[(level >> i) & 1]).join("");
  }
}

function cellNames(query: Query): readonly string[] {
  const { labels } = query.expression.type;
  return labels ?? Array.from({ length: query.cells }, (_, cell) => String(cell));
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_ITEMS).map(printable);
  return [...shown, ...(names.length > MOST_ITEMS ? [`${names.length - MOST_ITEMS} more`] : [])].join(
    ", ",
  );
}

function span(query: Query): string {
  const inside = query.kind === QueryKind.REAL ? query.expression.type : query;
  const low = query.low > inside.low ? query.low : inside.low;
  const high = query.high < inside.high ? query.high : inside.high;
  const unit = 1n << BigInt(query.frac);
  return `from ${decimal(low, unit)} to ${decimal(high, unit)}`;
}

function decimal(numerator: bigint, denominator: bigint): string {
  return fixed(numerator, denominator, 6).replace(/\.?0+$/, "");
}

/** An expression as it would be written in Python; long ones are cut. */
function render(node: ExpressionNode, depth = 0): string {
  const { op, args, constants, grid } = node;
  if (op === Op.FIELD) {
    return node.name;
  }
  if (op === Op.CONSTANT) {
    return exact(constants[0]!, grid);
  }
  if (depth >= MOST_DEPTH) {
    return "...";
  }
  const infix = INFIX[op];
  if (infix !== undefined) {
    return `(${operand(node, 0, depth)} ${infix} ${operand(node, 1, depth)})`;
  }
  const most = Math.max(2, MOST_ITEMS >> depth);
  const shown = args.slice(0, most).map((arg) => render(arg, depth + 1));
  if (args.length > most) {
    shown.push("...");
  }
  if (op === Op.NEGATE || op === Op.NOT) {
    return `${op === Op.NOT ? "~" : "-"}${shown[0]}`;
  }
  if (op === Op.COMPONENT) {
    return `${shown[0]}[${constants[0]}]`;
  }
  const numbers = constants.slice(0, MOST_ITEMS).map((value) => exact(value, grid));
  if (constants.length > MOST_ITEMS) {
    numbers.push("...");
  }
  if (op === Op.ROUND) {
    shown.push(String(grid));
  } else if (numbers.length) {
    shown.push(`[${numbers.join(", ")}]`);
  }
  return `${Op[op]!.toLowerCase()}(${shown.join(", ")})`;
}

function operand(node: ExpressionNode, position: number, depth: number): string {
  const [arg, other] = [node.args[position]!, node.args[1 - position]!];
  const { labels, kind } = other.type;
  if (arg.op === Op.CONSTANT && kind === Kind.CATEGORY && labels !== undefined) {
    return `'${labels[Number(arg.constants[0])]}'`;
  }
  return render(arg, depth + 1);
}

function exact(mantissa: bigint, grid: number): string {
  let [numerator, places] = [mantissa, grid];
  while (places > 0 && numerator % 2n === 0n) {
    [numerator, places] = [numerator / 2n, places - 1];
  }
  return places ? `${numerator}/${1n << BigInt(places)}` : String(numerator);
}
