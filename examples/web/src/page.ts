/** The page: one device in this browser, and what its owner sees and decides. */

import {
  BrowserStorage,
  DeviceClient,
  LedgerHeld,
  MAX_DAYS,
  postByFetch,
  startThreadsFrom,
  StoreError,
  type KnownStudy,
} from "askance-client/index.js";

import { begin, View, type Page } from "./pages.js";
import { h, mark, p } from "./parts.js";
import { keepRecord, readRecord } from "./record.js";
import { aggregatorBy, choices, schema, site, version } from "./site.js";

const NAME = "page"; // of the device, within this origin
const LOOK_MS = 1_000; // between two looks for what has changed
const MENU = { "": "Budgets", history: "Questions", studies: "Studies", record: "Your data", policy: "Policy" };

const nowS = () => Math.floor(Date.now() / 1000);
const main = document.querySelector("main")!;
const status = document.querySelector("#status")!;
document.querySelector(".brand")!.prepend(mark());

let calledS = 0; // when the aggregator has answered last
let trouble = ""; // of the last call
let entered = ""; // the token, until it has enrolled
let notice: HTMLElement | null = null;
let shown = "";
let client: DeviceClient;
let running = false;

/** Open the device; while another tab has it, say so and wait. */
async function open(): Promise<DeviceClient> {
  let storage: BrowserStorage;
  try {
    storage = await BrowserStorage.open(NAME, null);
  } catch (error) {
    if (!(error instanceof LedgerHeld)) {
      throw error;
    }
    show({ title: "Open in another tab", place: null, content: [p("Close the other tab; this one then goes on by itself.")] });
    storage = await BrowserStorage.open(NAME, new AbortController().signal);
  }
  return DeviceClient.open({
    storage,
    consentStorage: storage,
    secret: await storage.secret(),
    startThread: startThreadsFrom(new URL(`record_thread.js?${version}`, location.href)),
    aggregator: aggregatorBy(async (...call) => {
      const found = await postByFetch(...call);
      [calledS, trouble] = [nowS(), ""];
      return found;
    }),
    schema,
    policy: choices,
    consent: "ask",
    choices: {
      ...(site.release_ms === undefined ? {} : { releaseMs: site.release_ms }),
      ...(site.least_wait_ms === undefined ? {} : { leastWaitMs: site.least_wait_ms }),
      onFailure: ({ message }) => (trouble = message),
    },
  });
}

/** Check in from now on, until the page is closed. */
function run(): void {
  if (!running) {
    running = true;
    // Without it the page works as well, but does not open while its server is away.
    navigator.serviceWorker?.register("service_worker.js", { updateViaCache: "none" }).catch(() => {});
    client.run(new AbortController().signal).catch(fail);
  }
}

/** Take part: keep the record, and enrol with the token if that was not done. */
async function submit(form: HTMLFormElement): Promise<void> {
  const record = keepRecord(form);
  client.setRecord(record);
  try {
    if (!(await client.isEnrolled())) {
      await navigator.storage.persist();
      entered = String(new FormData(form).get("token") ?? "");
      await client.enrol(entered);
      entered = "";
    }
  } catch (error) {
    tell("bad", `Not enrolled: ${(error as Error).message}. What you have entered is kept: correct the token, or try again later.`);
    return;
  }
  run();
  history.pushState(null, "", "#/"); // without an event, which would take the notice away
  tell("good", "Saved.");
}

/** Decide on a study, durably; what was decided is acted on at the next check-in. */
async function decide(known: KnownStudy, verdict: "approve" | "deny", days: string): Promise<void> {
  try {
    if (verdict === "approve") {
      if (Number.isNaN(Number(days))) {
        throw new Error(`days: expected 1 to ${MAX_DAYS}, got ${days}`);
      }
      await client.consents.approve(known, nowS(), days === "" ? null : Number(days));
      tell("good", "Approved. It is answered at the next check-in at the earliest.");
    } else {
      await client.consents.deny(known, nowS());
      tell("good", "Denied. What was answered before stays charged.");
    }
  } catch (error) {
    tell("bad", (error as Error).message);
  }
}

function tell(tone: "good" | "bad", text: string): void {
  notice = h("p", { class: tone === "bad" ? "notice bad" : "notice", role: "alert" }, text);
  shown = "";
  void look().then(() => notice?.scrollIntoView({ block: "center" }));
}

/** The page of the address. */
async function current(): Promise<Page> {
  const enrolled = await client.isEnrolled();
  const [place = "", name = ""] = location.hash.replace(/^#\/?/, "").split("/");
  if (!enrolled || readRecord() === null || place === "record") {
    return begin(enrolled, entered, (form) => void submit(form));
  }
  const view = await View.of(client, nowS(), (...chosen) => void decide(...chosen));
  switch (place) {
    case "history":
      return view.history(Math.max(1, Number(name) || 1));
    case "studies":
      return view.studies();
    case "study":
      return view.study(name);
    case "policy":
      return view.policy(await navigator.storage.persisted());
    default:
      return view.budgets();
  }
}

function show({ title, place, content }: Page): void {
  document.title = `${title} - askance`;
  main.replaceChildren(
    h("div", { class: "heading" }, h("h1", {}, title)),
    ...[notice, ...content].filter((one) => one !== null),
  );
  const menu = place === null || !running ? [] : Object.entries(MENU);
  document.querySelector("#menu")!.replaceChildren(
    ...menu.map(([path, name]) => {
      const here = path === place ? { "aria-current": "page" } : {};
      return h("li", {}, h("a", { href: `#/${path}`, ...here }, name));
    }),
  );
}

/** Show the page anew where something has changed: a decision, a question, or the address. */
async function look(): Promise<void> {
  const line = statusText();
  if (status.textContent !== line) {
    status.textContent = line;
  }
  const { studies } = client.consents;
  const states = studies.map((known) => [known.questions.length, client.consents.state(known, nowS())]);
  const found = JSON.stringify([location.hash, client.history.length, states, running]);
  if (found !== shown) {
    shown = found;
    show(await current());
  }
}

function statusText(): string {
  if (!running) {
    return "This browser takes no part yet.";
  }
  if (!navigator.onLine) {
    return "Offline. Your decisions are kept, and acted on later.";
  }
  const last = calledS ? `Last check-in at ${new Date(1000 * calledS).toLocaleTimeString("sv-SE")}.` : "";
  return trouble ? `The last check-in failed: ${trouble.slice(0, 120)}` : last || "Checking in.";
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  running = false;
  notice = h("p", { class: "notice bad", role: "alert" }, text);
  const why =
    error instanceof StoreError
      ? "The account of your answers in this browser cannot be trusted, so nothing is answered. Ask the people who run the study; clearing this site's data makes this browser a new device."
      : "Reload the page to try again.";
  show({ title: "Stopped", place: null, content: [p(why)] });
}

window.addEventListener("hashchange", () => {
  notice = null;
  void look().then(() => main.focus());
});
try {
  client = await open();
  const record = readRecord();
  if (record !== null && (await client.isEnrolled())) {
    client.setRecord(record);
    run();
  }
  await look();
  setInterval(() => void look().catch(fail), LOOK_MS);
} catch (error) {
  fail(error);
}
