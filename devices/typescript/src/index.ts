/** A device for browsers and Node; the modules carry the names of the Python client's. */

export * from "./accounting/index.js";
export * from "./browser/storage.js";
export * from "./browser/threads.js";
export * from "./codec/index.js";
export * from "./device/core.js";
export * from "./device/examination.js";
export * from "./device/policy.js";
export * from "./embedding.js";
export { AskanceError, InvalidParameter, InvalidQuery, InvalidRecord } from "./errors.js";
export { ProtocolError, RemoteProtocolError, StoreError, StoreFailed } from "./errors.js";
export * from "./ledger/contract.js";
export * from "./ledger/ledger_file.js";
export * from "./ledger/postings.js";
export * from "./messages.js";
export * from "./owner/consents.js";
export * from "./printable.js";
export * from "./queries/index.js";
export * from "./randomizers/index.js";
export * from "./service/connect.js";
export * from "./service/enrolment.js";
export type { Evaluation, StartThread, Thread } from "./service/evaluation.js";
export * from "./service/exchange.js";
export * from "./service/identity.js";
export * from "./service/observable.js";
export * from "./service/runtime.js";
export type { RawRecord } from "./device/record_work.js";
