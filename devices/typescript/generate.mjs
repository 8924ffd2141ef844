/**
 * Write the messages of protoc's descriptors as TypeScript: node generate.mjs DESCRIPTORS FOLDER
 *
 * A message becomes its type and the table that `src/codec/wire.ts` reads and writes it by. Names and
 * types are those of protobuf-es: a oneof is its case and value, a number of 64 bits a bigint.
 * An enumeration lacks its number 0, which says that nothing was stated.
 */

import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { ScalarType, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

const [descriptors, folder] = process.argv.slice(2);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, await readFile(descriptors)));

/** Kind of a field as in its .proto file; an enumeration's number is an int32. */
function kindOf({ message, enum: numbers, scalar }) {
  const name = numbers === undefined ? ScalarType[scalar]?.toLowerCase() : "int32";
  return message === undefined ? JSON.stringify(name) : `${message.name}Schema`;
}

/** Type of one value of a field. */
function typeOf({ message, enum: numbers, scalar }) {
  const of = message ?? numbers;
  if (of !== undefined) {
    return of.name;
  }
  switch (scalar) {
    case ScalarType.STRING:
      return "string";
    case ScalarType.BOOL:
      return "boolean";
    case ScalarType.BYTES:
      return "Uint8Array";
    default:
      return /64/.test(ScalarType[scalar]) ? "bigint" : "number";
  }
}

function memberLines(member) {
  if (member.kind === "oneof") {
    const cases = member.fields.map(
      (field) => `    | { readonly case: "${field.localName}"; readonly value: ${typeOf(field)} }`,
    );
    const none = "    | { readonly case: undefined; readonly value?: undefined };";
    return [`  readonly ${member.localName}:`, ...cases, none];
  }
  const { fieldKind, localName } = member;
  const absent = fieldKind === "message";
  const type = fieldKind === "list" ? `readonly ${typeOf(member)}[]` : typeOf(member);
  return [`  readonly ${localName}${absent ? "?" : ""}: ${type}${absent ? " | undefined" : ""};`];
}

function rowOf(field) {
  const of = field.fieldKind === "list" ? "[]" : field.oneof?.localName;
  const parts = [field.number, JSON.stringify(field.localName), kindOf(field)];
  return `    [${[...parts, ...(of === undefined ? [] : [JSON.stringify(of)])].join(", ")}],`;
}

function messageLines(message) {
  const rows = message.fields.toSorted((a, b) => a.number - b.number).map(rowOf);
  return [
    "",
    `export interface ${message.name} {`,
    ...message.members.flatMap(memberLines),
    "}",
    `export const ${message.name}Schema: MessageKind<${message.name}> = {`,
    `  name: "${message.name}",`,
    ...(rows.length ? ["  fields: [", ...rows, "  ],"] : ["  fields: [],"]),
    "};",
  ];
}

function enumLines({ name, values }) {
  const numbers = values.filter(({ number }) => number !== 0);
  return [
    "",
    `export enum ${name} {`,
    ...numbers.map(({ localName, number }) => `  ${localName} = ${number},`),
    "}",
  ];
}

/** Messages of a file, each after those that it has. */
function ordered(messages) {
  const known = new Set(messages);
  const done = new Set();
  const visit = (message) => {
    known.delete(message) && message.fields.forEach(({ message: inner }) => inner && visit(inner));
    done.add(message);
  };
  messages.forEach(visit);
  return [...done].filter(({ file }) => file === messages[0]?.file);
}

/** Import lines of what a file has of others; a message is its type and its table. */
function importLines(file) {
  const used = file.messages.flatMap(({ fields }) => fields.map(({ message }) => message));
  const others = new Set(used.filter((message) => message !== undefined && message.file !== file));
  const files = new Set([...others].map((message) => message.file));
  return [...files].map((other) => {
    const own = [...others].filter((message) => message.file === other);
    const names = own.map(({ name }) => `${name}Schema, type ${name}`);
    return `import { ${names.join(", ")} } from "./${basename(other.name)}_pb.js";`;
  });
}

for (const file of registry.files) {
  const name = basename(file.name);
  const lines = [
    `/** Messages of ${name}.proto, where their comments stand; made by ./generate. */`,
    "",
    'import type { MessageKind } from "../../../codec/wire.js";',
    ...importLines(file),
    ...file.enums.flatMap(enumLines),
    ...ordered(file.messages).flatMap(messageLines),
  ];
  await writeFile(join(folder, `${name}_pb.ts`), `${lines.join("\n")}\n`);
}
