/**
 * Tables of TOML, as far as schemas use it: tables, inline tables, lists, texts in one line, whole
 * numbers and truth values. A number with a fraction is kept as its text: a bound is exactly as
 * written.
 */

import { InvalidParameter } from "../errors.js";

export type TomlValue = string | bigint | boolean | readonly TomlValue[] | TomlTable;
/** Values by key, in their order. */
export type TomlTable = ReadonlyMap<string, TomlValue>;
type Open = Map<string, TomlValue>;

const SPACES = /[ \t]*/y;
const COMMENT = "#[^\\n\\u0000-\\u0008\\u000b-\\u001f\\u007f]*";
const GAP = new RegExp(`(?:[ \\t\\n]|\\r\\n|${COMMENT})*`, "y"); // between the items of a list
const END = new RegExp(`[ \\t]*(?:${COMMENT})?(?:\\r?\\n|$)`, "y");
const BARE = /[A-Za-z0-9_-]+/y;
const BASIC = /"(?:[^"\\\n\u0000-\u0008\u000b-\u001f\u007f]|\\(?:[btnfr"\\]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*"/y;
const LITERAL = /'[^'\n\u0000-\u0008\u000b-\u001f\u007f]*'/y;
const INTEGER = /[+-]?(?:0|[1-9](?:_?[0-9])*)(?![0-9._eE:-])/y;
const NUMBER = /[+-]?(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?(?![0-9A-Za-z:_-])/y;
const TRUTH = /(?:true|false)(?![A-Za-z0-9_-])/y;

/**
 * Parse a text.
 *
 * @throws InvalidParameter: no TOML of these kinds, or a key twice; `name` and the line are shown.
 */
export function parseToml(name: string, text: string): TomlTable {
  return new Reader(name, text).whole();
}

class Reader {
  #at = 0;
  readonly #dotted = new Set<Open>(); // tables that keys with dots have made
  readonly #inlined = new Set<Open>(); // inline tables: whole as they are written

  constructor(
    private readonly name: string,
    private readonly text: string,
  ) {}

  whole(): TomlTable {
    const root: Open = new Map();
    const headed = new Set<Open>();
    let table = root;
    for (this.#skip(GAP); this.#at < this.text.length; this.#skip(GAP)) {
      if (this.#found("[")) {
        const path = this.#path();
        this.#need("]");
        table = path.reduce((inner, key) => this.#within(inner, key), root);
        if (headed.has(table) || this.#dotted.has(table)) {
          throw this.#refused("a table once");
        }
        headed.add(table);
      } else {
        this.#pair(table);
      }
      if (this.#take(END) === null) {
        throw this.#refused("the end of a line");
      }
    }
    return root;
  }

  #pair(table: Open): void {
    const path = this.#path();
    const last = path.pop()!;
    const inner = path.reduce((one, key) => this.#dottedWithin(one, key), table);
    this.#need("=");
    this.#skip(SPACES);
    if (inner.has(last)) {
      throw this.#refused(`the key ${last} once`);
    }
    inner.set(last, this.#value());
  }

  /** A table that a key with dots goes through: such keys alone have made it. */
  #dottedWithin(table: Open, key: string): Open {
    const isNew = !table.has(key);
    const found = this.#within(table, key);
    if (!isNew && !this.#dotted.has(found)) {
      throw this.#refused(`the table ${key} in one place`);
    }
    this.#dotted.add(found);
    return found;
  }

  #within(table: Open, key: string): Open {
    const found = table.get(key) ?? new Map<string, TomlValue>();
    if (!(found instanceof Map) || this.#inlined.has(found)) {
      throw this.#refused(`a table of the name ${key}`);
    }
    table.set(key, found);
    return found;
  }

  #path(): string[] {
    const path: string[] = [];
    do {
      this.#skip(SPACES);
      const key = this.#take(BARE) ?? this.#quoted();
      if (key === null) {
        throw this.#refused("a key");
      }
      path.push(key);
      this.#skip(SPACES);
    } while (this.#found("."));
    return path;
  }

  #value(): TomlValue {
    if (this.#found("[")) {
      return this.#list();
    }
    if (this.#found("{")) {
      return this.#inline();
    }
    const quoted = this.#quoted();
    if (quoted !== null) {
      return quoted;
    }
    const integer = this.#take(INTEGER);
    if (integer !== null) {
      return BigInt(integer.replaceAll("_", "").replace(/^\+/, ""));
    }
    const number = this.#take(NUMBER);
    if (number !== null) {
      return number.replaceAll("_", "");
    }
    const truth = this.#take(TRUTH);
    if (truth === null) {
      throw this.#refused("a text, a number, true, false, a list or a table");
    }
    return truth === "true";
  }

  #list(): TomlValue[] {
    const items: TomlValue[] = [];
    for (this.#skip(GAP); !this.#found("]"); this.#skip(GAP)) {
      items.push(this.#value());
      this.#skip(GAP);
      if (!this.#found(",")) {
        this.#need("]");
        break;
      }
    }
    return items;
  }

  #inline(): Open {
    const table: Open = new Map();
    this.#inlined.add(table);
    this.#skip(SPACES);
    if (this.#found("}")) {
      return table;
    }
    do {
      this.#pair(table);
      this.#skip(SPACES);
    } while (this.#found(","));
    this.#need("}");
    return table;
  }

  #quoted(): string | null {
    if (this.text.startsWith('"""', this.#at) || this.text.startsWith("'''", this.#at)) {
      throw this.#refused("a text in one line");
    }
    const literal = this.#take(LITERAL);
    if (literal !== null) {
      return literal.slice(1, -1);
    }
    const basic = this.#take(BASIC);
    if (basic === null) {
      return null;
    }
    const spelled = basic.replace(/\\(?:U(.{8})|u(.{4})|.)/g, (found, long?: string, short?: string) => {
      const digits = long ?? short;
      return digits === undefined ? found : JSON.stringify(this.#character(digits)).slice(1, -1);
    });
    return JSON.parse(spelled.replaceAll("\t", "\\t"));
  }

  #character(digits: string): string {
    const point = parseInt(digits, 16);
    if (point > 0x10ffff || (0xd800 <= point && point < 0xe000)) {
      throw this.#refused("a character of Unicode");
    }
    return String.fromCodePoint(point);
  }

  #take(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    if (found === null) {
      return null;
    }
    this.#at += found[0].length;
    return found[0];
  }

  #skip(pattern: RegExp): void {
    this.#take(pattern);
  }

  #found(mark: string): boolean {
    const isThere = this.text.startsWith(mark, this.#at);
    this.#at += isThere ? mark.length : 0;
    return isThere;
  }

  #need(mark: string): void {
    if (!this.#found(mark)) {
      throw this.#refused(mark);
    }
  }

  #refused(expected: string): InvalidParameter {
    const line = this.text.slice(0, this.#at).split("\n").length;
    return new InvalidParameter(`${this.name}: line ${line}: expected ${expected}`);
  }
}
