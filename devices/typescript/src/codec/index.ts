/** Messages as bytes; what is untrusted is parsed here, with limits. */

export { DIGEST_BYTES, decodeReport, decodeRequest, encodeReport, studyOf } from "./exchange.js";
export { MAX_MESSAGE_BYTES, digestOf, parse } from "./parsing.js";
export { decodeQuery } from "./queries.js";
export { decodeRandomizer } from "./randomizers.js";
export { encode } from "./wire.js";
export { STUDY_CONTEXT, decodeSchema, decodeStudy, schemaFromJson, verifyStudy } from "./studies.js";
