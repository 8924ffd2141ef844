/**
 * Opens the page while its server is not reached: it keeps the page's own static files, by version.
 *
 * It answers for these files alone, of its own origin. Calls of the aggregator pass it by, and no
 * answer of theirs is kept. The page itself comes from the server wherever that is reached, so an
 * update counts at once; what it names by its version is the same wherever it comes from.
 */

const VERSION = "{version}";
const CACHE = `askance-${VERSION}`;
const PAGE = new URL("./", location.href).href;
/** SHA-256 of each file by its address; the page has none of the version. */
const FILES = new Map(
  Object.entries(JSON.parse('{files}')).map(([name, integrity]) => [
    name === "index.html" ? PAGE : new URL(`${name}?${VERSION}`, location.href).href,
    integrity,
  ]),
);
const PATIENCE_MS = 10_000; // for the page, where the network neither works nor fails

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(replace()));
addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  if (method === "GET" && mode === "navigate" && [PAGE, `${PAGE}index.html`].includes(url.replace(/[?#].*$/, ""))) {
    event.respondWith(newestPage());
  } else if (method === "GET" && url !== PAGE && FILES.has(url)) {
    event.respondWith(kept(url).then((found) => found ?? fetch(url)));
  }
});

/** Keep the files of this version, all or none: a server may be in the middle of an update. */
async function keep() {
  const cache = await caches.open(CACHE);
  try {
    await cache.addAll(
      [...FILES].map(([url, integrity]) => new Request(url, { cache: "reload", integrity })),
    );
  } catch (error) {
    await caches.delete(CACHE);
    throw error;
  }
  await skipWaiting();
}

/** Drop the files of other versions, and answer for pages that are open. */
async function replace() {
  for (const name of await caches.keys()) {
    if (name !== CACHE && name.startsWith("askance-")) {
      await caches.delete(name);
    }
  }
  await clients.claim();
}

/** The page from its server; if that is not reached, the one that is kept. */
async function newestPage() {
  let found;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    found = await fetch(PAGE, { cache: "no-cache", redirect: "manual", signal });
  } catch {
    // It is not reached.
  }
  const isWell = found !== undefined && found.status < 500;
  return isWell ? found : ((await kept(PAGE)) ?? found ?? Response.error());
}

async function kept(url) {
  return (await caches.open(CACHE)).match(url);
}
