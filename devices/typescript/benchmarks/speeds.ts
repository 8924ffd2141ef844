/**
 * Speeds of draws and evaluations: reads one line of JSON with `seconds`, `randomizers` (name, bytes,
 * level) and `queries` (name, schema, bytes, record), writes one with the numbers per second by name.
 *
 * `benchmarks/typescript.py` asks it and does the same in Python.
 */

import { createInterface } from "node:readline";

import { decodeQuery, decodeRandomizer, decodeSchema, parse } from "../src/codec/index.js";
import { fromHex } from "../src/integers.js";
import { QuerySchema } from "../src/protos/askance_protos/v1/query_pb.js";
import { RandomizerSchema } from "../src/protos/askance_protos/v1/randomizer_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { QueryKind } from "../src/queries/index.js";
import { SystemCoins } from "../src/randomizers/index.js";

/** Seconds of the processor that this process took, its helper threads included. */
function processorS(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Calls per second of the processor, over at least `seconds`. */
function perSecond(call: () => unknown, seconds: number): number {
  for (let i = 0; i < 20; i++) {
    call();
  }
  const start = processorS();
  let calls = 0;
  for (let batch = 1; processorS() - start < seconds; batch = Math.min(2 * batch, 64)) {
    for (let i = 0; i < batch; i++) {
      call();
    }
    calls += batch;
  }
  return calls / (processorS() - start);
}

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const speeds: Record<string, Record<string, number>> = { draws: {}, losses: {}, evaluations: {} };
  const coins = new SystemCoins();
  for (const { name, bytes, level } of given.randomizers) {
    const decode = () => decodeRandomizer(parse(RandomizerSchema, fromHex(bytes)));
    const [randomizer, own] = [decode(), BigInt(`0x${level}`)];
    const request = new Uint8Array(32);
    const draw = () => randomizer.randomize(own, coins.words(request, randomizer.coins));
    speeds["draws"]![name] = perSecond(draw, given.seconds);
    speeds["losses"]![name] = perSecond(() => decode().loss.nanoNats, given.seconds);
  }
  for (const { name, schema, bytes, record } of given.queries) {
    const typed = decodeSchema(parse(SchemaSchema, fromHex(schema)));
    const query = decodeQuery(parse(QuerySchema, fromHex(bytes)), typed);
    const encoded = typed.encode(record);
    const evaluate = () =>
      query.kind === QueryKind.VECTOR ? query.evaluateVector(encoded) : query.evaluate(encoded);
    speeds["evaluations"]![name] = perSecond(evaluate, given.seconds);
  }
  process.stdout.write(JSON.stringify(speeds) + "\n");
}
