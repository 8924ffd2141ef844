import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { CallFailed, Aggregator, type Answer, postByFetch } from "../src/service/connect.js";
import { InvalidParameter } from "../src/errors.js";
import { Secret } from "../src/service/identity.js";
import {
  type Clock,
  firstBatch,
  nextCheckInMs,
  onGrid,
  recordTimes,
  systemJitter,
} from "../src/service/observable.js";
import { toHex } from "../src/integers.js";

/** A clock that a test moves; each wait ends late by what `late` says next. */
class StillClock implements Clock {
  time = 1000;
  readonly wakes: number[] = [];

  constructor(private readonly late: number[] = []) {}

  now(): number {
    return this.time;
  }

  async sleep(milliseconds: number): Promise<void> {
    this.time += milliseconds + (this.late.shift() ?? 0);
    this.wakes.push(this.time - 1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const done = () => Promise.resolve("done");

test("reports leave at the first multiple at which they are done", async () => {
  const clock = new StillClock();
  assert.equal(await onGrid(done(), 100, clock), "done");
  assert.deepEqual(clock.wakes, [100]);
  const slow = new StillClock();
  const work = (async () => {
    while (slow.wakes.length < 3) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  await onGrid(work, 100, slow);
  assert.deepEqual(slow.wakes.slice(0, 3), [100, 200, 300]);
  assert.ok(slow.wakes.every((wake) => wake % 100 === 0));
});

test("a wait that is a little late keeps its instant, and the next multiple is not moved", async () => {
  const clock = new StillClock([7]);
  await onGrid(done(), 100, clock);
  assert.deepEqual(clock.wakes, [107]);
});

test("a missed instant becomes the next multiple", async () => {
  const clock = new StillClock([730]);
  await onGrid(done(), 100, clock);
  assert.deepEqual(clock.wakes, [830, 900]);
});

test("two missed instants are a browser that slows timers down: the wake is its own", async () => {
  const clock = new StillClock([60_300, 60_300]);
  await onGrid(done(), 1000, clock);
  assert.deepEqual(clock.wakes, [61_300, 122_300]);
});

test("a failure of the work leaves at the instant too", async () => {
  const clock = new StillClock();
  await assert.rejects(onGrid(Promise.reject(new Error("no disk")), 100, clock), /no disk/);
  assert.deepEqual(clock.wakes, [100]);
});

test("times of record work are those of every device", () => {
  // A light message: a quarter of the grid for the source, one for the evaluation, one for draws.
  assert.deepEqual(recordTimes(1000, 100), { slotMs: 1, fixedMs: 500, overMs: 750 });
  assert.deepEqual(recordTimes(20, 100), { slotMs: 1, fixedMs: 100, overMs: 150 });
  // 5 x 2^18 units at 256 per ms: 5,120 ms, which is 21 steps of 250 ms with the first one.
  assert.deepEqual(recordTimes(1000, 5 * 2 ** 18), { slotMs: 10_241, fixedMs: 5_500, overMs: 10_750 });
});

test("check-ins come after a minute or more, and half of it at random", () => {
  assert.equal(nextCheckInMs(0, 60_000, () => 0), 60_000);
  assert.equal(nextCheckInMs(1_000, 60_000, (bound) => bound), 90_000);
  assert.equal(nextCheckInMs(100_000, 60_000, () => 0), 100_000);
  assert.equal(nextCheckInMs(2 ** 32 - 1, 60_000, () => 0), 300_000);
});

test("jitter is within its bound", () => {
  const drawn = new Set(Array.from({ length: 200 }, () => systemJitter(2)));
  assert.deepEqual([...drawn].sort(), [0, 1, 2]);
});

test("jitter is even: a word that would favour a remainder is drawn again", () => {
  const words = [2 ** 32 - 1, 4]; // 2^32 = 3 * 1431655765 + 1: the last word of all is one too many
  const draw = mock.method(crypto, "getRandomValues", (into: Uint32Array) => into.fill(words.shift()!));
  try {
    assert.equal(systemJitter(2), 1);
  } finally {
    draw.mock.restore();
  }
});

test("a page's call has no cookies, no referrer and no other address", async () => {
  const given: RequestInit[] = [];
  const call = mock.method(globalThis, "fetch", async (_: string, how: RequestInit) => {
    given.push(how);
    return new Response(new Uint8Array(5));
  });
  try {
    const { body } = await postByFetch("https://127.0.0.1:1/", {}, new Uint8Array([7]), 3);
    assert.equal(body.length, 5); // past its limit, and refused by the caller
  } finally {
    call.mock.restore();
  }
  const { credentials, redirect, referrerPolicy, cache, method } = given[0]!;
  assert.deepEqual(
    [credentials, redirect, referrerPolicy, cache, method],
    ["omit", "error", "no-referrer", "no-store", "POST"],
  );
});

test("a batch has 64 reports or 32 KiB, or one report that has more", () => {
  const reports = (count: number, size: number) => new Array(count).fill(new Uint8Array(size));
  assert.equal(firstBatch(reports(65, 10)).length, 64);
  assert.equal(firstBatch(reports(10, 8192)).length, 4);
  assert.equal(firstBatch(reports(10, 40_000)).length, 1);
  assert.equal(firstBatch([]).length, 0);
});

test("identities are those of the Python client's folder", async () => {
  // Secret(bytes(range(32))).device() and .member("ann") of askance_client.service.identity.
  const secret = await Secret.of(Uint8Array.from({ length: 32 }, (_, at) => at));
  const [device, ann] = [await secret.device(), await secret.member("ann")];
  assert.equal(device.deviceId, "b0a28894b13b79c134c1197464c61349");
  assert.equal(toHex(device.token), "a258dcbf84f6d89ca5d0df08f87175486d9de3c4b566f1711578bd46fefd934d");
  assert.equal(ann.deviceId, "279e92206bd18e2a158203923564fed2");
  assert.equal(toHex(ann.token), "f84e3048b512e12632d0c94c8a4e1b0a0f561cd951d57d8d384da69e3b32028b");
});

function answering(status: number, type: string, body: string, retry: string | null = null) {
  const headers: Record<string, string | null> = {
    "content-type": type,
    "trailer-askance-retry-after-ms": retry,
  };
  const answer: Answer = {
    status,
    body: new TextEncoder().encode(body),
    header: (name) => headers[name] ?? null,
  };
  return new Aggregator("https://127.0.0.1:1/", async (url) => {
    assert.equal(url, "https://127.0.0.1:1/askance.v1.Devices/CheckIn");
    return answer;
  });
}

for (const address of ["http://ask.example.org:7443", "http://192.0.2.7", "ask.example.org:7443", "ftp://localhost"]) {
  test(`credentials are sent to no address in the clear: ${address}`, () => {
    assert.throws(() => new Aggregator(address), (error: Error) => {
      assert.ok(error instanceof InvalidParameter);
      assert.ok(error.message.endsWith(`got ${address}`), error.message);
      return true;
    });
  });
}

test("plain text may stay on one machine", () => {
  for (const address of ["http://127.0.0.1:1", "http://[::1]:7443", "http://localhost", "https://a.example"]) {
    assert.ok(new Aggregator(address));
  }
});

test("an aggregator that is not reached is named", async () => {
  const away = new Aggregator("https://ask.example.org:7443/", async () => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects(away.call("CheckIn", new Uint8Array(), {}), {
    message: "unavailable: https://ask.example.org:7443 was not reached (fetch failed)",
  });
});

const PROTO = "application/proto";
const FAILURES: readonly [string, Aggregator, string, number][] = [
  ["an error", answering(401, "application/json", '{"code":"unauthenticated"}'), "unauthenticated", 0],
  ["a wait", answering(429, "application/json", '{"code":"resource_exhausted"}', "250"), "resource_exhausted", 250],
  ["no number", answering(503, "application/json", '{"code":"unavailable"}', "-1"), "unavailable", 0],
  ["a page", answering(200, "text/html", "<p>"), "unknown", 0],
  ["no code", answering(500, "application/json", '{"code":7}'), "unknown", 0],
  ["a script as a code", answering(500, "application/json", '{"code":"<b>"}'), "unknown", 0],
  ["a status that moves", answering(302, PROTO, ""), "unknown", 0],
  ["too many bytes", answering(200, PROTO, "x".repeat(2 ** 20 + 1)), "resource_exhausted", 0],
];

for (const [name, aggregator, code, retryMs] of FAILURES) {
  test(`a call fails by what it is answered: ${name}`, async () => {
    await assert.rejects(aggregator.call("CheckIn", new Uint8Array(), {}), (error) => {
      assert.ok(error instanceof CallFailed);
      assert.deepEqual([error.code, error.retryMs], [code, retryMs]);
      return true;
    });
  });
}
