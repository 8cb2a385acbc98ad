import type { SeededRandom } from "../seeded-random.ts";

/** A JSON text as callers may write it, and its expected canonical form. */
type JsonSample = {
  readonly text: string;
  /** The expected text: as `JSON.stringify` writes it, but with numbers as they were written. */
  readonly canonical: string;
};

const NUMBERS = [
  ...["0", "-0", "7", "-12", "1.0", "1.50", "-0.0", "1e3", "1E+3", "2.5e-7", "0.1", "1e21", "1000000000000000000000"],
  ...["123456789012345", "9007199254740993", "12345678901234567890", "1.7976931348623157e308", "1e-999"],
  ...["0.30000000000000004", "3.14159265358979323846", "-1.5", "100"],
] as const;

/**
 * No key contains a backslash: after such a key, JSON.parse of Node 24.21 confuses it with an escape of the same
 * characters.
 */
const KEYS = [
  ...["a", "b", "0", "1", "10", "007", "-1", "4294967294", "4294967295", "9999999999", "1.5"],
  ...["__proto__", "constructor", "", " ", "ключ", "😀", '"', "a\nb", "u0031"],
] as const;

const SPACES = ["", "", "", " ", "\n", "\t", "\r\n  "] as const;

function jsonSample(random: SeededRandom, room: number): JsonSample {
  const kind = random.below(room > 0 ? 6 : 3);
  if (kind === 0) return plain(random.pick(NUMBERS));
  if (kind === 1) return plain(random.pick(["true", "false", "null"]));
  if (kind === 2) return quoted(random, words(random));
  return kind === 3 ? arraySample(random, room) : objectSample(random, room);
}

/** Creates an object sample with at most `room` levels of nesting. */
export function objectSample(random: SeededRandom, room: number): JsonSample {
  const inner = new Map<string, string>();
  const members = Array.from({ length: random.below(6) }, () => {
    const name: string = random.pick(KEYS);
    const key = quoted(random, name);
    const value = jsonSample(random, room - 1);
    inner.set(name, value.canonical);
    return `${key.text}${space(random)}:${space(random)}${value.text}`;
  });
  // As in any object, keys that are array indices come first.
  const canonical = Object.entries(Object.fromEntries(inner)).map(
    ([name, value]) => `${JSON.stringify(name)}:${value}`,
  );
  return { text: `{${listed(random, members)}}`, canonical: `{${canonical.join(",")}}` };
}

function arraySample(random: SeededRandom, room: number): JsonSample {
  const items = Array.from({ length: random.below(5) }, () => jsonSample(random, room - 1));
  const texts = items.map(({ text }) => text);
  return {
    text: `[${listed(random, texts)}]`,
    canonical: `[${items.map(({ canonical }) => canonical).join(",")}]`,
  };
}

function plain(text: string): JsonSample {
  return { text, canonical: text };
}

function listed(random: SeededRandom, texts: readonly string[]): string {
  return space(random) + texts.map((text) => text + space(random)).join(`,${space(random)}`);
}

function space(random: SeededRandom): string {
  return random.pick(SPACES);
}

function words(random: SeededRandom): string {
  const pieces = [
    ...["a", '"', "\\", "\\\\", "{", "}", "[", ",", ":", "é", "😀", "\n", "\u2028", "x".repeat(60), "1.0"],
  ] as const;
  return Array.from({ length: random.below(8) }, () => random.pick(pieces)).join("");
}

function quoted(random: SeededRandom, value: string): JsonSample {
  const canonical = JSON.stringify(value);
  if (random.below(3) > 0) return { text: canonical, canonical };
  const units = Array.from({ length: value.length }, (_, at) => value.charCodeAt(at));
  return { text: `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")}"`, canonical };
}
