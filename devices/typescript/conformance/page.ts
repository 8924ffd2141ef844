/** The kit in a page: asks all cases that the page's server has and posts the counts to it. */

import { compare, load } from "./cases.js";

try {
  const cases = await load(async (name) => {
    const reply = await fetch(`/cases/${name}`);
    return new Uint8Array(await reply.arrayBuffer());
  });
  await post({ counts: await compare(cases), agent: navigator.userAgent });
} catch (error) {
  await post({ error: String(error) });
}

function post(result: unknown): Promise<unknown> {
  return fetch("/result", { method: "POST", body: JSON.stringify(result) });
}
