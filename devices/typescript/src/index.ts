/** A device for browsers and Node; the modules carry the names of the Python client's. */

export * from "./accounting/index.js";
export * from "./errors.js";
