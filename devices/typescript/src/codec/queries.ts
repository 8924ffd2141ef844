/** Queries on the wire. */

import type { Query as QueryMessage } from "../protos/askance_protos/v1/query_pb.js";
import { Query, type Schema } from "../queries/index.js";

/**
 * The query in a message, its types and bounds inferred anew from `schema`.
 *
 * @throws InvalidQuery: an operation, kind or node that this version does not know or allow.
 */
export function decodeQuery(message: QueryMessage, schema: Schema): Query {
  return Query.rebuilt(message.kind, message.nodes, schema, message);
}
