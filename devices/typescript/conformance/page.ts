/** The kit in a page: asks all cases that the page's server has and posts the counts to it. */

import { BrowserStorage } from "../src/browser/storage.js";
import { adapter } from "./adapter.js";
import { compare, load } from "./cases.js";

let places = 0;
const answer = adapter(async () => {
  const name = `place-${places++}`;
  return {
    open: () => BrowserStorage.open(name, null),
    remove: () => deleted(`askance-${name}`),
  };
});

/** Delete a database. */
function deleted(name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.deleteDatabase(name);
    asked.onsuccess = () => resolve();
    asked.onerror = () => reject(new Error(`could not delete ${name}`));
  });
}

try {
  const cases = await load(async (name) => {
    const reply = await fetch(`/cases/${name}`);
    return new Uint8Array(await reply.arrayBuffer());
  });
  await post({ counts: await compare(cases, answer), agent: navigator.userAgent });
} catch (error) {
  await post({ error: String(error) });
}

function post(result: unknown): Promise<unknown> {
  return fetch("/result", { method: "POST", body: JSON.stringify(result) });
}
