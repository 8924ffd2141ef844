/** Queries on the wire. */

import { InvalidQuery } from "../errors.js";
import type { Query as QueryMessage } from "../protos/askance_protos/v1/query_pb.js";
import { Query, type Schema } from "../queries/index.js";

/**
 * The query in a message, which may be absent, its types and bounds inferred anew from `schema`.
 *
 * @throws InvalidQuery: an operation, kind or node that this version does not know or allow.
 */
export function decodeQuery(message: QueryMessage | undefined, schema: Schema): Query {
  if (message === undefined) {
    throw new InvalidQuery("a request expects a query, found none");
  }
  return Query.rebuilt(message.kind, message.nodes, schema, message);
}
