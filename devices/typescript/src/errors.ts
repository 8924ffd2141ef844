/**
 * Errors, by the party at fault.
 *
 * A message says what was expected and what was found; it never repeats a user's value. An ordinary
 * refusal of a device is a value (`messages.Refusal`), not an error.
 */

/** The root of every error that this package throws on purpose. */
export class AskanceError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** A caller's number or name is outside what is documented; that call did nothing. */
export class InvalidParameter extends AskanceError {}

/** Throw InvalidParameter, with a message, unless a condition holds. */
export function expect(holds: boolean, message: string): asserts holds {
  if (!holds) {
    throw new InvalidParameter(message);
  }
}

/** A query is ill-typed, too large, or could overflow; it was not asked. */
export class InvalidQuery extends AskanceError {}

/** A record does not have the schema's shape (a single bad value is no error). */
export class InvalidRecord extends AskanceError {}

/** Bytes or an exchange that the protocol does not allow. */
export class ProtocolError extends AskanceError {}

/** The other side broke the protocol; its message is dropped. */
export class RemoteProtocolError extends ProtocolError {}

/** A ledger cannot be trusted or used; it is left as it was found. */
export class StoreError extends AskanceError {}

/** The disk or the database failed: the same operation may succeed later. */
export class StoreFailed extends StoreError {}
