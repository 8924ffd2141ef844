/**
 * Randomizers: the only place where a user's answer becomes a report.
 *
 * - A randomizer is a finite table of integers (`Channel`), or a family of integer draws with a
 *   closed-form loss. It draws reports and certifies its loss, and does nothing else.
 * - A draw is a pure function of the level and of a fixed number of 64-bit coins, which are passed
 *   in: the operating system's on a device, given ones in a test.
 * - A loss is a ratio of integers, exact or bounded from above, and its charge the least whole number
 *   of nano-nats that covers it. It is computed, never received.
 * - Floats stand where integers below 2^53 do, whose sums and products they have exactly.
 *
 * Source: KLNRS08 section 4.
 */

export { Channel, MAX_LEVELS, MAX_SYMBOLS } from "./channel.js";
export { COIN_SPACE, SystemCoins, type Coins, type Words } from "./coins.js";
export { HadamardSign } from "./hadamard_sign.js";
export { HypercubeResponse } from "./hypercube_response.js";
export { KaryResponse } from "./k_ary.js";
export { LinearHashing } from "./linear_hashing.js";
export { PrivacyLoss } from "./loss.js";
export { RandomCodebook } from "./random_codebook.js";
export { NumberedRandomizer, Randomizer } from "./randomizer.js";
export { MAX_ROUNDING_LEVELS, roundToLevels } from "./rounding.js";
export { SetRandomizer } from "./sets.js";
export { SignedSubsetSelection } from "./signed_subset_selection.js";
export { SubsetSelection } from "./subset_selection.js";
