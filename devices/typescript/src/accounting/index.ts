/**
 * Cost of randomizers: budgets and charges as integers.
 *
 * - A budget is a whole number of nano-nats: 1 nat = 10^9. Pure epsilons add up, so composition is
 *   integer addition, also when tables are chosen adaptively.
 * - The charge of a likelihood ratio a/b is the least N with a <= e^(N/10^9) b. It is decided with
 *   integers that bound e^x from both sides, never by way of a float.
 * - A budget given as text is rounded down, a charge is rounded up.
 */

export { charge, ratioWithin } from "./charges.js";
export { expBounds } from "./exponential.js";
export {
  LEAST_LOSS,
  MAX_NANO_NATS,
  NANO_NATS_PER_NAT,
  checkNanoNats,
  formatNats,
  parseEpsilon,
} from "./nano_nats.js";
