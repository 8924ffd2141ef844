/** Defects to plant in the source, one at a time, named as in `tests/conformance/test_planted_defects.py`. */

import { LEDGER_DEFECTS } from "./ledger_defects.js";

export interface Defect {
  readonly name: string;
  /** The kind of case that finds it. */
  readonly kind: string;
  /** Path below `src`. */
  readonly file: string;
  /** Text that stands in the file once. */
  readonly text: string;
  readonly replacement: string;
}

function defect(kind: string, name: string, file: string, text: string, replacement: string): Defect {
  return { name, kind, file, text, replacement };
}

export const DEFECTS: readonly Defect[] = [
  defect(
    "record",
    "a_record_is_rounded_half_up",
    "queries/exact.ts",
    "(twice === denominator && (quotient & 1n) === 1n)",
    "twice === denominator",
  ),
  defect(
    "record",
    "a_number_out_of_range_is_missing",
    "queries/fields.ts",
    "return ratio === undefined ?",
    "const mantissa = ratio && toGrid(ratio, frac);\n" +
      "  return !ratio || mantissa < low || mantissa > high ?",
  ),
  defect(
    "evaluate",
    "a_missing_value_is_zero",
    "queries/query.ts",
    "this.compiled.reads[component]! & absent ?",
    "false ?",
  ),
  defect(
    "evaluate",
    "a_vector_is_missing_as_a_whole",
    "queries/query.ts",
    "this.compiled.reads[component]! & absent ?",
    "absent ?",
  ),
  defect("evaluate", "less_equal_is_less", "queries/evaluate.ts", "bit(a <= b)", "bit(a < b)"),
  defect(
    "evaluate",
    "rounding_is_toward_zero",
    "queries/evaluate.ts",
    "(slots[i]! + half) >> shift",
    "slots[i]! / (1n << shift)",
  ),
  defect(
    "evaluate",
    "an_edge_belongs_to_the_bucket_below",
    "queries/evaluate.ts",
    "edge <= x",
    "edge < x",
  ),
  defect(
    "evaluate",
    "the_last_that_holds_is_first",
    "queries/evaluate.ts",
    "let p = positions.length - 1; p >= 0; p--",
    "let p = 0; p < positions.length; p++",
  ),
  defect(
    "evaluate",
    "the_sigmoid_takes_the_nearest_point",
    "queries/sigmoid.ts",
    "value >> BigInt(shift)",
    "(value + (1n << BigInt(shift)) / 2n) >> BigInt(shift)",
  ),
  defect(
    "query",
    "nodes_may_have_any_order",
    "queries/program.ts",
    "expect(isPostorder(built), ",
    "expect(true, ",
  ),
  defect(
    "query",
    "a_value_may_reach_sixty_three_bits",
    "queries/limits.ts",
    "MAX_MAGNITUDE = 1n << 62n",
    "MAX_MAGNITUDE = 1n << 63n",
  ),
  defect(
    "query",
    "a_digest_leaves_the_schema_out",
    "queries/query.ts",
    "sha256(await schema.digest(), this.canonical)",
    "sha256(this.canonical)",
  ),
  defect(
    "query",
    "unknown_fields_are_skipped",
    "codec/wire.ts",
    "if (field === undefined ||",
    "if (field === undefined && wire === VARINT) {\n" +
      "      at = readVarint(data, at);\n" +
      "      continue;\n" +
      "    }\n" +
      "    if (field === undefined ||",
  ),
  defect(
    "query",
    "numbers_of_more_than_five_bytes_are_refused",
    "codec/wire.ts",
    "MAX_VARINT = 10",
    "MAX_VARINT = 5",
  ),
  defect(
    "loss",
    "a_loss_is_a_float",
    "accounting/charges.ts",
    "  // numerator/denominator < 2^octaves",
    "  const nats = Math.log(Number(numerator)) - Math.log(Number(denominator));\n" +
      "  return BigInt(Math.max(Math.ceil(1e9 * nats), 0));\n//",
  ),
  defect("loss", "a_loss_is_rounded_down", "accounting/charges.ts", "return high;", "return low;"),
  defect(
    "randomizer",
    "the_loss_of_sets_has_no_bias",
    "randomizers/floyd.ts",
    "(COIN_SPACE - bias)",
    "COIN_SPACE",
  ),
  defect(
    "draw",
    "equally_long_sets_are_written_as_indices",
    "randomizers/sets.ts",
    "needed * this.size < Math",
    "needed * this.size <= Math",
  ),
  defect(
    "draw",
    "a_coin_at_the_edge_draws_the_symbol_below",
    "randomizers/channel.ts",
    "coins[0]! >= sum",
    "coins[0]! > sum",
  ),
  defect(
    "draw",
    "other_cells_start_one_late",
    "randomizers/k_ary.ts",
    "(coin - own) / other",
    "(coin > own ? coin - own - 1n : 0n) / other",
  ),
  defect(
    "draw",
    "products_wrap_around_at_thirty_two_bits",
    "randomizers/coins.ts",
    "this.high(i) * n",
    "Math.imul(this.high(i), n)",
  ),
  defect(
    "draw",
    "coins_are_signed",
    "randomizers/hadamard_sign.ts",
    "= coins[1]! >=",
    "= BigInt.asIntN(64, coins[1]!) >=",
  ),
  defect(
    "draw",
    "the_first_coins_of_a_set_are_read",
    "randomizers/floyd.ts",
    "halves.share(j - unread, j + 1)",
    "halves.share(j - items + size + 1, j + 1)",
  ),
  defect(
    "draw",
    "ties_of_codes_go_to_the_last",
    "randomizers/random_codebook.ts",
    "left = rank - sorted.indexOf(value)",
    "left = sorted.lastIndexOf(value) - rank",
  ),
  defect(
    "draw",
    "many_signs_are_flipped_and_not_kept",
    "randomizers/hypercube_draws.ts",
    "distance <= kept ? drawn : total - 1n - drawn",
    "drawn",
  ),
  defect(
    "alphabet",
    "a_value_may_have_both_signs",
    "../conformance/exact_laws.ts",
    "found.map((item) => item >> 1) : found",
    "found : found",
  ),
  defect(
    "alphabet",
    "unused_bits_may_be_set",
    "randomizers/sets.ts",
    "item < 8 * report.length",
    "item < this.items",
  ),
  defect(
    "level",
    "a_number_at_its_threshold_is_rounded_up",
    "randomizers/rounding.ts",
    "return coin <",
    "return coin <=",
  ),
  defect(
    "signature",
    "a_signature_is_not_checked",
    "codec/studies.ts",
    'return await crypto.subtle.verify("Ed25519",',
    'return signed.signature.length === 64 || await crypto.subtle.verify("Ed25519",',
  ),
  defect(
    "study",
    "fields_of_a_study_need_no_order",
    "codec/studies.ts",
    "expect(isSorted(message.fields), ",
    "expect(true, ",
  ),
  defect(
    "schema",
    "texts_are_preceded_by_their_characters",
    "queries/canonical.ts",
    "return this.u32(bytes.length)",
    "return this.u32(value.length)",
  ),
  defect(
    "report",
    "a_reason_may_be_unknown",
    "codec/exchange.ts",
    "if (Reason[reason] === undefined)",
    "if (false)",
  ),
  defect(
    "response",
    "a_message_has_any_number_of_requests",
    "service/exchange.ts",
    "MAX_REQUESTS = 64",
    "MAX_REQUESTS = 65",
  ),
  defect(
    "request",
    "rounding_takes_no_coin",
    "messages.ts",
    "query.kind === QueryKind.REAL ? 1 : 0",
    "0",
  ),
  defect(
    "check_in",
    "a_message_has_any_number_of_reports",
    "service/exchange.ts",
    "MAX_REPORTS = 64",
    "MAX_REPORTS = 65",
  ),
  defect(
    "query",
    "an_inner_message_may_pass_its_end",
    "codec/wire.ts",
    "at > data.length",
    "at > data.buffer.byteLength",
  ),
  defect(
    "request",
    "a_number_may_have_another_wire_type",
    "codec/wire.ts",
    "(wire !== (varint ? VARINT : LENGTH) && !isPacked)",
    "false",
  ),
  defect(
    "response",
    "a_message_has_any_length",
    "codec/parsing.ts",
    "data.length > limit",
    "false",
  ),
  defect(
    "study",
    "names_are_sorted_by_units_of_utf_16",
    "codec/studies.ts",
    "compareBytes(utf8(texts[i - 1]!), utf8(text)) < 0",
    "texts[i - 1]! < text",
  ),
  defect(
    "schema",
    "characters_are_units_of_utf_16",
    "queries/schema.ts",
    "[...name].length",
    "name.length",
  ),
  defect(
    "record",
    "white_space_is_that_of_the_language",
    "queries/exact.ts",
    'return text.replace(ENDS, "");',
    "return text.trim();",
  ),
  defect(
    "randomizer",
    "a_ratio_is_cut_inward",
    "randomizers/hypercube_draws.ts",
    "ceilShift(most, excess)",
    "most >> excess",
  ),
  ...LEDGER_DEFECTS.map(([name, ...rest]) => defect("ledger", name, ...rest)),
];
