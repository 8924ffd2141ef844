/** Texts in the form in which messages and pages show them. */

const HIDDEN = /(?! )[\p{C}\p{Z}]/u; // categories C and Z of Unicode, but the space
const ALL_HIDDEN = new RegExp(HIDDEN, "gu");

/** True if a text has no character that could steer what shows it. */
export function isPrintable(text: string): boolean {
  return !HIDDEN.test(text);
}

/** Spell out every character of a text that is not printable. */
export function printable(text: string): string {
  return text.replace(ALL_HIDDEN, (found) => `\\u{${found.codePointAt(0)!.toString(16)}}`);
}
