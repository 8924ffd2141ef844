#!/usr/bin/env node
/** The command `askance-device`: a device, or the members of a folder, in a process of Node. */

import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";

import type { DeviceClient } from "../embedding.js";
import { AskanceError, InvalidParameter } from "../errors.js";
import { printable } from "../printable.js";
import { type Item, SOCKET, askRunning, serveControl } from "./control.js";
import { makeFolder, openClient } from "./folder.js";
import { OPERATIONS, operationsOf, tell } from "./operations.js";
import { parsedJson } from "./records.js";

const USAGE = `usage: askance-device COMMAND --home FOLDER
  init --configuration FILE   make the folder, with a new secret and an empty ledger
  enroll --token FILE         make the device known to its aggregator
  run [--once]                answer what is asked
  status                      spent budget, and studies with the owner's decisions
  approve STUDY [--days N]    answer a study (the first eight digits of its digest or more)
  deny STUDY                  refuse it
                              (these three reach a device that runs, too)
  accept-loss | repair-clock  go on after a ledger was put back, or a clock was ahead`;

/** Commands that open the folder, which no other process has meanwhile. */
const FOLDER_COMMANDS: readonly string[] = ["enroll", "run", "accept-loss", "repair-clock"];

const OPTIONS = {
  home: { type: "string" },
  configuration: { type: "string" },
  token: { type: "string" },
  days: { type: "string" },
  once: { type: "boolean" },
  help: { type: "boolean" },
} as const;

async function main(): Promise<void> {
  const { values, positionals } = parsed();
  if (values.help === true) {
    console.log(USAGE);
    return;
  }
  const [command, study] = positionals;
  const { home } = values;
  if (command === undefined || home === undefined) {
    throw new InvalidParameter(USAGE);
  }
  if (command === "init") {
    const given = need(values.configuration);
    await makeFolder(home, parsedJson(given, await readFile(given, "utf8")), given);
    console.log(`made ${home}; next: enroll, then run`);
    return;
  }
  if (Object.hasOwn(OPERATIONS, command)) {
    const days = values.days === undefined ? {} : { days: wholeNumber("--days", values.days) };
    const given = command === "status" ? {} : { study: need(study), ...days };
    console.log(tell(command, await asked(home, command, given)));
    return;
  }
  if (!FOLDER_COMMANDS.includes(command)) {
    throw new InvalidParameter(`command: expected one of those below, got ${printable(command)}\n${USAGE}`);
  }
  const token = command === "enroll" ? await tokenIn(need(values.token)) : "";
  const client = await openClient(home);
  try {
    switch (command) {
      case "enroll":
        await client.enrol(token);
        console.log(`enrolled: ${client.deviceIds.length}`);
        break;
      case "run":
        await run(client, home, values.once === true);
        break;
      case "accept-loss":
        await client.acceptLoss();
        break;
      case "repair-clock":
        await client.repairClock();
        break;
    }
  } finally {
    await client.close();
  }
}

/** The command line's options and words; its faults are the caller's. */
function parsed() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new InvalidParameter(`${(error as Error).message}\n${USAGE}`);
  }
}

/** Ask the device that runs, or open the folder and do it here. */
async function asked(home: string, name: keyof typeof OPERATIONS, given: Item): Promise<readonly Item[]> {
  const answered = await askRunning(join(home, SOCKET), name, given);
  if (answered !== null) {
    return answered;
  }
  const client = await openClient(home);
  try {
    return await operationsOf(client)[name]!(given);
  } finally {
    await client.close();
  }
}

async function run(client: DeviceClient, home: string, once: boolean): Promise<void> {
  if (once) {
    await client.checkInOnce();
    return;
  }
  const end = new AbortController();
  setMaxListeners(0, end.signal); // each member waits for it
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => end.abort());
  }
  const stop = await serveControl(join(home, SOCKET), operationsOf(client));
  try {
    console.log(`running: ${client.deviceIds.length}`);
    await client.run(end.signal);
  } finally {
    await stop();
  }
}

function wholeNumber(name: string, given: string): number {
  if (!/^[0-9]{1,9}$/.test(given)) {
    throw new InvalidParameter(`${name}: expected a whole number, got ${printable(given)}`);
  }
  return Number(given);
}

/** An operator's token in a file; it is not shown. */
async function tokenIn(path: string): Promise<string> {
  const token = (await readFile(path, "utf8")).trim();
  if (!/^[\x21-\x7e]{1,1024}$/.test(token)) {
    const got = `${token.split("\n").length} lines, ${token.length} characters`;
    throw new InvalidParameter(`${path}: expected a token, one line of 1 to 1024 ASCII characters, got ${got}`);
  }
  return token;
}

function need(given: string | undefined): string {
  if (given === undefined) {
    throw new InvalidParameter(USAGE);
  }
  return given;
}

try {
  await main();
} catch (error) {
  // A system's error is of a file that cannot be read or written.
  if (!(error instanceof AskanceError || (error instanceof Error && "syscall" in error))) {
    throw error;
  }
  console.error(error.message);
  process.exitCode = 1;
}
