/** Settings of the site that serves the page, put in when it is built. */

import { Aggregator, parseEpsilon, Policy, schemaFromJson, type Post } from "askance-client/index.js";

/** The settings; `schema` is an askance.v1.Schema as JSON, budgets are in nats. */
interface Settings {
  readonly title: string;
  readonly about: string;
  readonly aggregator: string;
  readonly analysts: readonly string[];
  readonly life_epsilon: string;
  readonly day_epsilon?: string;
  readonly study_epsilon?: string;
  readonly fields?: readonly string[];
  readonly schema: unknown;
  readonly release_ms?: number;
  readonly least_wait_ms?: number;
}

declare const SETTINGS: Settings;
declare const VERSION: string;

const budget = (text: string | undefined) => (text === undefined ? null : parseEpsilon(text));

export const site = SETTINGS;
export const version = VERSION; // of all static files of the page
export const schema = schemaFromJson(SETTINGS.schema);
export const choices = {
  analysts: SETTINGS.analysts,
  lifeNanoNats: parseEpsilon(SETTINGS.life_epsilon),
  dayNanoNats: budget(SETTINGS.day_epsilon),
  studyNanoNats: budget(SETTINGS.study_epsilon),
  fields: SETTINGS.fields ?? null,
};
export const policy = new Policy(choices);
export const aggregatorBy = (post: Post) => new Aggregator(SETTINGS.aggregator, post);
