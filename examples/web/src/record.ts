/** The person's own record: kept in this browser, read by the thread that evaluates, sent nowhere. */

import { Bit, Bits, Category, Integer, Real, type Field, type RawRecord } from "askance-client/index.js";

import { h, type Content } from "./parts.js";
import { schema } from "./site.js";

const KEY = "askance-record";

/** The record; null: the person has not given one yet. */
export function readRecord(): RawRecord | null {
  const text = localStorage.getItem(KEY);
  return text === null ? null : (JSON.parse(text) as RawRecord);
}

/** Keep what a form says. */
export function keepRecord(form: HTMLFormElement): RawRecord {
  const given = new FormData(form);
  const texts = [...schema.fields.keys()].map((name) => [name, String(given.get(`field-${name}`) ?? "")]);
  const record = Object.fromEntries(texts.filter(([, text]) => text !== "")) as RawRecord;
  localStorage.setItem(KEY, JSON.stringify(record));
  return record;
}

/** The inputs of a form, one per field of the schema; an empty one is a value that is missing. */
export function inputs(): HTMLElement {
  const known = (readRecord() ?? {}) as Readonly<Record<string, string>>;
  const fields = [...schema.fields].map(([name, field]) => {
    const id = `field-${name}`;
    const input = inputOf(field, { id, name: id, autocomplete: "off" }, known[name] ?? "");
    return h("div", { class: "field" }, h("label", { for: id }, name), input);
  });
  return h(
    "fieldset",
    {},
    h("legend", {}, "Your data"),
    h("small", {}, "It stays in this browser. What you leave open counts as missing."),
    ...fields,
  );
}

function inputOf(field: Field, named: Record<string, string>, known: string): HTMLElement {
  const options = optionsOf(field);
  if (options !== null) {
    const shown = [["", "no answer"] as const, ...options];
    const made = shown.map(([value, text]) =>
      h("option", { value, selected: value === known }, text),
    );
    return h("select", named, ...(made as Content[]));
  }
  const { low, high, frac } = field.type;
  if (field instanceof Integer || field instanceof Real) {
    const end = (bound: bigint) => String(Number(bound) / 2 ** frac);
    const numbers = { type: "number", step: frac ? "any" : "1", min: end(low), max: end(high) };
    return h("input", { ...named, ...numbers, value: known });
  }
  const width = field instanceof Bits ? field.width : 1;
  const pattern = `[01]{${width}}`;
  const title = `${width} digits, each 0 or 1`;
  return h("input", { ...named, pattern, title, inputmode: "numeric", value: known });
}

function optionsOf(field: Field): (readonly [string, string])[] | null {
  if (field instanceof Bit) {
    return [["1", "yes"], ["0", "no"]];
  }
  return field instanceof Category ? field.labels.map((label) => [label, label] as const) : null;
}
