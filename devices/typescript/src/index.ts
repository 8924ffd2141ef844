/** A device for browsers and Node; the modules carry the names of the Python client's. */

export * from "./accounting/index.js";
export * from "./codec/index.js";
export * from "./errors.js";
export * from "./exact_laws.js";
export * from "./messages.js";
export * from "./printable.js";
export * from "./queries/index.js";
export * from "./randomizers/index.js";
export * from "./service/exchange.js";
