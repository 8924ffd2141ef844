/** Messages as bytes; what is untrusted is parsed here, with limits. */

export { MAX_MESSAGE_BYTES, digestOf, parse } from "./parsing.js";
export { decodeQuery } from "./queries.js";
export { STUDY_CONTEXT, decodeSchema, decodeStudy, verifyStudy } from "./studies.js";
