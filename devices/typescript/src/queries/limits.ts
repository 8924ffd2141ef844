/**
 * The limits of a schema and of a query, as named constants.
 *
 * They bound what an untrusted query can cost a device, and they are what makes 64 bits enough.
 */

export const MAX_MAGNITUDE = 1n << 62n; // every value on a grid is smaller
export const MAX_FRAC = 40; // the finest grid is 2^-40
export const MAX_DEPTH = 64;
export const MAX_NODES = 4096;
export const MAX_WEIGHT = 1 << 16; // nodes, arguments and constants of one query, together

export const WORD = 32; // components of a bit vector that share one word
export const MAX_BITS = 4096;
export const MAX_LABELS = 1 << 16;
export const MAX_LABEL_BYTES = 1024;
export const MAX_FIELDS = 4096;
export const MAX_CELLS = 1n << 20n; // of a category that is an integer; labels are fewer
export const MAX_COMPONENTS = 1024; // of a vector query
export const MAX_SPREAD = 1n << 31n; // high - low of a real query or a vector, in grid units
