/** Parts of pages. Texts are set as text: nothing that an aggregator sends is parsed as HTML. */

import { formatNats } from "askance-client/index.js";

import { fixed, nats } from "./numbers.js";

export type Content = Node | string | null;
type Attributes = Readonly<Record<string, string | boolean | ((event: Event) => void)>>;

const SVG = "http://www.w3.org/2000/svg";
const MARK =
  "M5.5 12.5C8 8.6 16 8.6 18.5 12.5 16 16.2 8 16.2 5.5 12.5Z"; // an eye that looks askance

/** Make an element; a function is a handler of the event that it is named for. */
export function h(name: string, attributes: Attributes = {}, ...content: Content[]): HTMLElement {
  return filled(document.createElement(name), attributes, content);
}

function svg(name: string, attributes: Attributes, ...content: Content[]): SVGElement {
  return filled(document.createElementNS(SVG, name), attributes, content);
}

function filled<E extends Element>(made: E, attributes: Attributes, content: Content[]): E {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      made.addEventListener(key, value);
    } else if (value !== false) {
      made.setAttribute(key, value === true ? "" : value);
    }
  }
  made.append(...content.filter((one) => one !== null));
  return made;
}

export const p = (...content: Content[]) => h("p", {}, ...content);
export const h2 = (text: string) => h("h2", {}, text);
export const code = (text: string) => h("code", {}, text);

/** The mark of the project. */
export function mark(): SVGElement {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("rect", { width: "24", height: "24", rx: "6", fill: "#0f766e" }),
    svg("path", { d: MARK, fill: "none", stroke: "#fff", "stroke-width": "1.7" }),
    svg("circle", { cx: "14.2", cy: "12.3", r: "2.1", fill: "#fff" }),
  );
}

/** A budget: its name, what was spent, and its limit, in nano-nats. */
export type Budget = readonly [name: string, spent: bigint, of: bigint];

/** A list of budgets, each as a bar and as numbers. */
export function bars(budgets: readonly Budget[]): HTMLElement {
  return h("ul", { class: "bars" }, ...budgets.map(bar));
}

function bar([name, spent, of]: Budget): HTMLElement {
  const share = of ? `${fixed(100n * (spent < of ? spent : of), of, 2)}%` : "100%";
  const left = nats(spent < of ? of - spent : 0n);
  return h(
    "li",
    {},
    h("strong", {}, name),
    svg(
      "svg",
      { class: "bar", role: "img", "aria-label": `${share} spent`, width: "100%", height: "16" },
      svg("rect", { class: "whole", width: "100%", height: "100%", rx: "4" }),
      svg("rect", { class: "spent", width: share, height: "100%", rx: "4" }),
    ),
    h("span", {}, `${formatNats(spent)} of ${nats(of)} spent, ${left} left`),
  );
}

/** A list of items, or the text that there is none. */
export function cards(items: readonly HTMLElement[], none: string): HTMLElement {
  return items.length
    ? h("ul", { class: "cards" }, ...items.map((item) => h("li", { class: "panel" }, item)))
    : h("div", { class: "empty" }, p(none));
}

/** Names and what they are; a pair without a value is left out. */
export function pairs(...found: readonly (readonly [string, Content])[]): HTMLElement {
  const shown = found.filter(([, value]) => value);
  return h(
    "dl",
    { class: "facts" },
    ...shown.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** A time in the browser's zone. */
export function time(unixS: number): HTMLElement {
  const at = new Date(1000 * unixS);
  if (Number.isNaN(at.getTime())) {
    return h("span", {}, "the end of the calendar");
  }
  const shown = at.toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "long" });
  return h("time", { datetime: at.toISOString() }, shown);
}
