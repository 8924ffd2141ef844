/**
 * Schemas and queries: a query is data, not code.
 *
 * - A value is an integer over a power of two. Arithmetic is exact; only ROUND (half up) and SIGMOID
 *   (a stated integer table) round. No float decides anything.
 * - A program that was received is typed anew against this device's own schema (`rebuild`): its
 *   kinds, grids and bounds are inferred, and one that is ill-typed, too large, or could reach 2^62
 *   is refused.
 * - A value that is missing or unreadable is no error: the query answers its public default.
 */

export { sha256 } from "./canonical.js";
export { Bit, Bits, Category, Integer, Label, Real, type Field, type GridValue } from "./fields.js";
export type { ExpressionNode } from "./inference.js";
export { Kind, Op } from "./kinds.js";
export { MAX_COMPONENTS, MAX_NODES } from "./limits.js";
export { Query, QueryKind } from "./query.js";
export { Schema, type EncodedRecord } from "./schema.js";
