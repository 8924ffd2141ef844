/** Defects of the ledger's rules, as [name, file, text, replacement]; see `planted_defects.ts`. */

export const LEDGER_DEFECTS: readonly (readonly [string, string, string, string])[] = [
  [
    "a_day_is_the_last_twenty_four_hours",
    "ledger/ledger_file.ts",
    "Math.floor(atS / SECONDS_PER_DAY) === day;",
    "Math.floor(atS / SECONDS_PER_DAY) >= day - 1;",
  ],
  [
    "a_day_starts_an_hour_late",
    "ledger/ledger_file.ts",
    "Math.floor(atS / SECONDS_PER_DAY) === day;",
    "Math.floor((atS - 3600) / SECONDS_PER_DAY) === day;",
  ],
  ["a_question_of_a_tiny_loss_is_answered", "device/examination.ts", "nanoNats < LEAST_LOSS", "nanoNats < 1n"],
  [
    "a_question_of_the_least_loss_is_refused",
    "device/examination.ts",
    "nanoNats < LEAST_LOSS",
    "nanoNats <= LEAST_LOSS",
  ],
  ["answers_to_a_study_have_no_limit", "ledger/contract.ts", "totals.studyAnswers >= limits.answers", "false"],
  [
    "answers_to_all_studies_count_together",
    "ledger/ledger_file.ts",
    "...counts, lastS",
    "...counts, studyAnswers: counts.answers, lastS",
  ],
  ["a_second_answer_is_free", "ledger/ledger_file.ts", "sums.life += nanoNats;", "sums.life ||= nanoNats;"],
  ["a_reused_answer_is_charged", "ledger/ledger_file.ts", "this.#symbols.get(question) ?? null", "null"],
  [
    "a_restart_forgets_charges",
    "node/ledger_file_storage.ts",
    "postings.push(postingOf(line.row));",
    "postingOf(line.row);",
  ],
  [
    "a_restart_keeps_studies",
    "device/core.ts",
    "#studies = new Map<string, ExaminedStudy>();",
    "#studies = ((globalThis as any).kept ??= new Map<string, ExaminedStudy>());",
  ],
  [
    "a_budget_may_not_be_spent_to_the_last",
    "ledger/contract.ts",
    "totals.life + nanoNats > limits.life",
    "totals.life + nanoNats >= limits.life",
  ],
  [
    "a_study_is_answered_at_its_expiry",
    "device/settling.ts",
    "BigInt(atS) >= study.terms.expiresUnixS",
    "BigInt(atS) > study.terms.expiresUnixS",
  ],
  [
    "a_clock_a_minute_and_a_second_behind_stands_still",
    "device/settling.ts",
    "CLOCK_SLACK_S = 60;",
    "CLOCK_SLACK_S = 61;",
  ],
  ["one_refusal_more_leaves", "device/settling.ts", "MAX_REFUSALS = 256;", "MAX_REFUSALS = 257;"],
  [
    "charges_of_one_message_are_not_added",
    "device/settling.ts",
    "totals = totalsAfter(",
    "totalsAfter(",
  ],
];
