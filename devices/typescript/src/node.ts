/** Parts of a device in Node: a ledger in a file, a folder, records from files, threads. */

export * from "./index.js";
export * from "./node/configuration.js";
export * from "./node/folder.js";
export * from "./node/ledger_file_storage.js";
export * from "./node/posting.js";
export * from "./node/records.js";
export * from "./node/schema_file.js";
export * from "./node/threads.js";
