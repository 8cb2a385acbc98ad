import { randomBytes } from "node:crypto";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** The number of characters of a canary that count as found: a part of it is a leak too. */
const SHOWN = 10;

/** Makes a unique word. */
export function newCanary(): string {
  return `CNRY-${[...randomBytes(16)].map((byte) => ALPHABET[byte % ALPHABET.length]).join("")}`;
}

/** Returns the forms of a word in a text: itself, and encodings that a log or a trace might use. */
export function formsOf(canary: string): string[] {
  const word = canary.slice(0, SHOWN);
  const bytes = Buffer.from(word);
  const codes = [...bytes].map((byte) => byte.toString(16).padStart(2, "0"));
  return [
    word,
    word.toLowerCase(),
    // Base64 depends on the word's offset in a group of three; only whole groups of the word are the same.
    ...[0, 1, 2].map((offset) =>
      Buffer.from(bytes.subarray((3 - offset) % 3))
        .toString("base64")
        .slice(0, 8),
    ),
    codes.join(""),
    codes.map((code) => `%${code}`).join(""),
    codes.map((code) => `\\u00${code}`).join(""),
    codes.map((code) => `\\x${code}`).join(""),
    [...word].join("\0"),
    [...word].join("\\u0000"),
    [...bytes].join(","),
  ];
}

export function leaks(canaries: ReadonlyMap<string, string>, texts: Readonly<Record<string, string>>): string[] {
  const found: string[] = [];
  for (const [place, canary] of canaries)
    for (const [name, text] of Object.entries(texts))
      if (formsOf(canary).some((form) => text.includes(form))) found.push(`${place} in ${name}`);
  return found;
}
