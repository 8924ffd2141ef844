/** The person's pages: budgets, questions, studies, one study, the policy, and the begin. */

import {
  decodeRequest,
  decodeStudy,
  digestOf,
  printable,
  type DeviceClient,
  type KnownStudy,
  type Posting,
  type Request,
  type StudyTerms,
} from "askance-client/index.js";
import { toHex } from "askance-client/integers.js";

import { answer, explained, question, type ExplainedQuestion } from "./explaining.js";
import { cost, nats, percent } from "./numbers.js";
import { bars, cards, code, h, h2, p, pairs, time, type Budget, type Content } from "./parts.js";
import { inputs } from "./record.js";
import { choices, policy, site } from "./site.js";

const DAY_S = 86_400;
const NEWEST = 5;
const PER_PAGE = 50;
const STATES = { waiting: "waits for you", approved: "approved", denied: "denied" } as const;
const TONES: Readonly<Record<string, string>> = { waiting: "warn", approved: "good", denied: "bad" };
const EVENTS = {
  loss: "loss accepted: what was left of the life budget was charged",
  clock: "clock repaired: time is believed again from here on",
  answer: "",
} as const;

/** A page: its title, its place in the menu, and what it shows. */
export interface Page {
  readonly title: string;
  readonly place: string | null;
  readonly content: readonly Content[];
}

/** Decides on a study, durably. */
export type Decide = (known: KnownStudy, verdict: "approve" | "deny", days: string) => void;

/** What a person sees of a device at one moment. */
export class View {
  readonly #requests = new Map<string, Request>();
  readonly #terms = new Map<string, StudyTerms>();

  private constructor(
    private readonly client: DeviceClient,
    private readonly nowS: number,
    private readonly decide: Decide,
  ) {}

  /** Decode what the device has kept. */
  static async of(client: DeviceClient, nowS: number, decide: Decide): Promise<View> {
    const view = new View(client, nowS, decide);
    for (const known of client.consents.studies) {
      const terms = decodeStudy(known.study);
      view.#terms.set(digestIn(known), shown(terms));
      for (const payload of known.questions) {
        view.#requests.set(toHex(await digestOf(payload)), decodeRequest(payload, terms.schema));
      }
    }
    return view;
  }

  /** Budgets, studies that wait, and the newest questions. */
  budgets(): Page {
    const { studies } = this.client.consents;
    const waiting = studies.filter((known) => this.#state(known) === "waiting");
    const newest = this.client.history.slice(-NEWEST).reverse();
    return {
      title: "Budgets",
      place: "",
      content: [
        bars(this.#general()),
        h2("Studies that wait for a decision"),
        cards(waiting.map((known) => this.#card(known)), "No study waits."),
        h2("Newest questions"),
        cards(newest.map((row) => this.#asked(row)), "No question was charged."),
      ],
    };
  }

  /** Every question that was charged, newest first. */
  history(page: number): Page {
    const rows = [...this.client.history].reverse();
    const shown = rows.slice((page - 1) * PER_PAGE, page * PER_PAGE);
    const older = rows.length > page * PER_PAGE;
    return {
      title: "Questions",
      place: "history",
      content: [
        cards(shown.map((row) => this.#asked(row)), "No question was charged."),
        h(
          "p",
          { class: "pages turns" },
          page > 1 ? h("a", { href: `#/history/${page - 1}` }, "Newer") : null,
          older ? h("a", { href: `#/history/${page + 1}` }, "Older") : null,
        ),
      ],
    };
  }

  /** The studies that the device was asked about, newest first. */
  studies(): Page {
    const found = [...this.client.consents.studies].reverse();
    const items = found.map((known) => this.#card(known));
    return { title: "Studies", place: "studies", content: [h2("Newest first"), cards(items, "No study was asked about.")] };
  }

  /** A study: terms, budgets, questions with their chances, and the decision. */
  study(key: string): Page {
    const known = this.client.consents.studies.find((one) => one.key === key);
    if (known === undefined) {
      return { title: "Study", place: "studies", content: [p("This device was not asked about it.")] };
    }
    const terms = this.#terms.get(digestIn(known))!;
    const asked = known.questions.map((payload) => decodeRequest(payload, terms.schema));
    return {
      title: terms.purpose || "Study without a purpose",
      place: "studies",
      content: [
        pairs(
          ["State", this.#stated(known)],
          ["May ask about", terms.fields.join(", ") || "no field"],
          ["Costs at most", cost(course(terms))],
          ["Each time", eachTime(terms)],
          ["All studies cost at most", cost(choices.lifeNanoNats)],
          ["Learner", terms.learner],
          ["Parameters", terms.parameters.map(({ name, value }) => `${name} = ${value}`).join(", ")],
          ["First asked", time(known.firstS)],
          ["Ends", time(known.expiresS)],
          ["Analyst", code(known.key.slice(64))],
          ["Study", code(digestIn(known))],
        ),
        h2("Budgets"),
        bars([...this.#general(), ...this.#own(known, terms)]),
        h2("Questions so far"),
        cards(asked.map((request) => asQuestion(explained(request))), "No question is kept."),
        h2("Decide"),
        this.#decision(known),
      ],
    };
  }

  /** What this site's settings allow, and what clearing the browser does. */
  policy(persistent: boolean): Page {
    const { lifeNanoNats, dayNanoNats, studyNanoNats, fields, analysts } = choices;
    return {
      title: "Policy",
      place: "policy",
      content: [
        pairs(
          ["New studies", "wait for you"],
          ["An approval holds", "until its study ends, or for the days that you say"],
          ["Fields that may be asked", fields === null ? "all" : fields.join(", ") || "none"],
          ["May collect again", "never"],
          ["At most per life", cost(lifeNanoNats)],
          ["At most per day", cost(dayNanoNats ?? lifeNanoNats)],
          ["At most per study", cost(studyNanoNats ?? lifeNanoNats)],
          ["Analysts", h("span", {}, ...analysts.flatMap((key) => [code(key), " "]))],
          ["Device", code(this.client.deviceIds[0] ?? "")],
          [
            "Kept by this browser",
            persistent ? "until you clear it" : "until you clear it, or it needs the room",
          ],
        ),
        h2("What clearing this browser does"),
        p(
          "The account of what your answers have cost is kept in this browser alone. If you clear this",
          " site's data, it is gone, and so are your decisions. What was answered stays answered, but",
          " nothing here remembers it.",
        ),
        p(
          "This browser is then a new device. It answers nothing until you enter a new token, and",
          " whether you get one is decided by the people who run the study: with a second token, the",
          " budget above begins anew, and a reader of both devices' answers can be as sure as after twice the",
          " budget.",
        ),
      ],
    };
  }

  #general(): Budget[] {
    const { lifeNanoNats, dayNanoNats } = choices;
    const today = Math.floor(this.nowS / DAY_S) * DAY_S;
    const budgets: Budget[] = [["Whole life", spent(this.client.history), lifeNanoNats]];
    const ofToday = this.client.history.filter(({ atS }) => atS >= today);
    budgets.push(["Today (UTC)", spent(ofToday), dayNanoNats ?? lifeNanoNats]);
    return budgets;
  }

  #own(known: KnownStudy, terms: StudyTerms): Budget[] {
    const limits = policy.limits(terms, Math.floor(this.nowS / DAY_S));
    const rows = this.client.history.filter(({ study }) => study === digestIn(known));
    return [["Study", spent(rows), limits.study]];
  }

  #state(known: KnownStudy): string {
    return this.client.consents.state(known, this.nowS);
  }

  #stated(known: KnownStudy): HTMLElement {
    const state = this.#state(known);
    const text = state in STATES ? STATES[state as keyof typeof STATES] : state;
    const until = state === "approved" ? known.decision!.untilS : 0;
    return h(
      "span",
      {},
      h("span", { class: `state ${TONES[state] ?? ""}` }, text),
      until ? " until " : null,
      until ? time(until) : null,
    );
  }

  #card(known: KnownStudy): HTMLElement {
    const terms = this.#terms.get(digestIn(known))!;
    const about = terms.fields.join(", ") || "no field";
    return h(
      "div",
      {},
      h("h3", {}, h("a", { href: `#/study/${known.key}` }, terms.purpose || "no purpose")),
      p(this.#stated(known)),
      p(`About ${about}. Costs at most ${cost(course(terms))}.`),
      bars(this.#own(known, terms)),
      p(h("small", {}, `Analyst ${known.key.slice(64, 80)}`)),
    );
  }

  #asked(row: Posting): HTMLElement {
    const head = p(time(row.atS), " ", h("strong", {}, nats(row.nanoNats)));
    if (row.kind !== "answer") {
      return h("div", {}, head, p(EVENTS[row.kind]));
    }
    const request = this.#requests.get(row.request);
    const known = this.client.consents.studies.find((one) => digestIn(one) === row.study);
    const purpose = this.#terms.get(row.study)?.purpose || row.study.slice(0, 16);
    return h(
      "div",
      {},
      head,
      pairs(
        ["Asked", request === undefined ? "not shown here any more" : question(request.query)],
        ["Answered", request === undefined ? code(toHex(row.symbol)) : answer(request, row.symbol)],
        ["Study", known === undefined ? purpose : h("a", { href: `#/study/${known.key}` }, purpose)],
      ),
    );
  }

  #decision(known: KnownStudy): HTMLElement {
    if (this.#state(known) === "expired") {
      return p("The study has ended: nothing is left to decide.");
    }
    const days = h("input", {
      id: "days",
      name: "days",
      maxlength: "4",
      inputmode: "numeric",
      autocomplete: "off",
      "aria-describedby": "days-hint",
    }) as HTMLInputElement;
    const button = (verdict: "approve" | "deny", name: string, tone: string) =>
      h(
        "button",
        { type: "button", class: tone, click: () => this.decide(known, verdict, days.value.trim()) },
        name,
      );
    return h(
      "div",
      { class: "decide" },
      h(
        "div",
        { class: "field" },
        h("label", { for: "days" }, "Days"),
        days,
        h("small", { id: "days-hint" }, "An approval holds for so many, 1 to 3660; empty: until the study ends."),
      ),
      h("div", { class: "pages" }, button("approve", "Approve", "primary"), button("deny", "Deny", "danger")),
    );
  }
}

/** The first page of a browser that takes no part yet, or whose data is to be changed. */
export function begin(enrolled: boolean, token: string, submit: (form: HTMLFormElement) => void): Page {
  const form = h(
    "form",
    {
      class: "take-part",
      submit: (event) => {
        event.preventDefault();
        submit(event.target as HTMLFormElement);
      },
    },
    inputs(),
    enrolled ? null : tokenField(token),
    h("div", { class: "pages" }, h("button", { type: "submit", class: "primary" }, enrolled ? "Save" : "Take part")),
  ) as HTMLFormElement;
  const how =
    "Each question waits until you approve its study. An answer is then changed at random, in this" +
    " browser, before it leaves, so that it proves nothing about what you entered here. How sure a reader" +
    " can be at most is said of every study; this browser keeps count of it, and stops at your budget.";
  return enrolled
    ? { title: "Your data", place: "record", content: [p("Answers to questions from now on are drawn from this."), form] }
    : { title: site.title, place: "", content: [p(site.about), p(how), form] };
}

function tokenField(value: string): HTMLElement {
  return h(
    "fieldset",
    {},
    h("legend", {}, "Your token"),
    h(
      "div",
      { class: "field" },
      h("label", { for: "token" }, "Token"),
      h("input", {
        id: "token",
        name: "token",
        value,
        required: true,
        maxlength: "1024",
        autocomplete: "off",
        spellcheck: "false",
        "aria-describedby": "token-hint",
      }),
      h("small", { id: "token-hint" }, "You got it from the people who run the study. It is for one person, and used once."),
    ),
  );
}

function asQuestion(asked: ExplainedQuestion): HTMLElement {
  const rounded = " A number between two of these values is rounded to one of them at random.";
  const heads = asked.truths.map((truth) => h("th", { scope: "col", class: "number" }, `if ${truth}`));
  const rows = asked.answers.map(({ name, count, chances }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, count > 1n ? `${name} (${count.toLocaleString("en")} of them)` : name),
      ...chances.map((chance) => h("td", { class: "number" }, percent(chance))),
    ),
  );
  return h(
    "div",
    {},
    h("h3", {}, asked.question),
    p(`An answer costs ${cost(asked.nanoNats)}.${asked.rounded ? rounded : ""}`),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": "Chances of the answers" },
      h(
        "table",
        {},
        h("caption", {}, "Chance of each answer, for each true value"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Possible answer"), ...heads)),
        h("tbody", {}, ...rows),
      ),
    ),
  );
}

/** The terms with their texts as a page may show them: without marks that turn or hide letters. */
function shown(terms: StudyTerms): StudyTerms {
  const parameters = terms.parameters.map(({ name, value }) => ({ name: printable(name), value: printable(value) }));
  return { ...terms, purpose: printable(terms.purpose), learner: printable(terms.learner), parameters };
}

function digestIn({ key }: KnownStudy): string {
  return key.slice(0, 64);
}

function spent(rows: readonly Posting[]): bigint {
  return rows.reduce((sum, { nanoNats }) => sum + nanoNats, 0n);
}

function course({ budgetNanoNats, repeat }: StudyTerms): bigint {
  return budgetNanoNats * BigInt(repeat?.epochs ?? 1);
}

function eachTime({ budgetNanoNats, repeat }: StudyTerms): string {
  return repeat === undefined
    ? ""
    : `${nats(budgetNanoNats)}, ${repeat.epochs} times, every ${repeat.everyDays} days`;
}
