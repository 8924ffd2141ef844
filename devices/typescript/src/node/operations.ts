/** Operations of an owner on a folder, the same for a device that runs and for one that does not. */

import { formatNats } from "../accounting/index.js";
import { decodeStudy } from "../codec/index.js";
import type { DeviceClient } from "../embedding.js";
import { InvalidParameter } from "../errors.js";
import type { KnownStudy } from "../owner/consents.js";
import { printable } from "../printable.js";
import type { Item, Operation } from "./control.js";

const SHOWN_DIGITS = 16;
const LATEST_S = 253_402_300_799; // the last second of the year 9999: an analyst may sign a later end

/** A study, as an operation answers. */
interface Shown {
  readonly study: string;
  readonly state: string;
  readonly purpose: string;
  readonly untilS: number;
}

const lineOf = ({ study, state, untilS }: Shown): string => {
  const until = state === "approved" ? ` until ${new Date(1000 * Math.min(untilS, LATEST_S)).toISOString()}` : "";
  return `study ${study}: ${state}${until}`;
};

/** Operations by name, each with its text for people. */
export const OPERATIONS: Readonly<Record<string, (found: readonly Item[]) => string>> = {
  status: ([sums, ...studies]) =>
    [
      `rows: ${sums!["rows"]}, spent: ${sums!["spent"]} nats by all members`,
      ...(studies as unknown as Shown[]).map((one) => `${one.study} ${one.state} "${one.purpose}"`),
    ].join("\n"),
  approve: ([shown]) => lineOf(shown as unknown as Shown),
  deny: ([shown]) => lineOf(shown as unknown as Shown),
};

/** Format what an operation has answered. */
export const tell = (name: string, found: readonly Item[]): string => OPERATIONS[name]!(found);

/** The operations on an opened folder. */
export function operationsOf(
  client: DeviceClient,
  nowS = () => Math.floor(Date.now() / 1000),
): Readonly<Record<string, Operation>> {
  const { consents } = client;
  const shown = (known: KnownStudy): Item => ({
    study: known.key.slice(0, SHOWN_DIGITS),
    state: consents.state(known, nowS()),
    purpose: printable(decodeStudy(known.study).purpose),
    untilS: known.decision?.untilS ?? 0,
  });
  return {
    status: () => {
      const spent = client.history.reduce((sum, { nanoNats }) => sum + nanoNats, 0n);
      return [{ rows: client.history.length, spent: formatNats(spent) }, ...consents.studies.map(shown)];
    },
    approve: async ({ study, days = null }) => {
      if (days !== null && typeof days !== "number") {
        throw new InvalidParameter(`days: expected a whole number, got ${typeof days}`);
      }
      return [shown(await consents.approve(consents.named(String(study)), nowS(), days))];
    },
    deny: async ({ study }) => [shown(await consents.deny(consents.named(String(study)), nowS()))],
  };
}
