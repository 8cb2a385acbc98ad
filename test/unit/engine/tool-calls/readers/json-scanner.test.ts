import { describe, expect, test } from "vitest";
import { JsonScanner } from "../../../../../engine/tool-calls/readers/json-scanner.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

const VALUES = [
  "{}",
  "[]",
  '""',
  "true",
  "false",
  "null",
  ' \n\t{ "a" : [ 1 , -0.5 , 2e10 , 3E-2 , 4.5e+6 ] , "b" : { "c" : "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff" } }',
  '[[],[[]],{"":{}}]',
  '"\u{1f600}\u007f"',
];

const BROKEN = [
  ["{,", 1],
  ['{"a"}', 4],
  ['{"a":}', 5],
  ['{"a":1,}', 7],
  ["{a", 1],
  ["[1,]", 3],
  ["[1 2", 3],
  ["[01", 2],
  ["[-x", 2],
  ["[1.]", 3],
  ["[1e]", 3],
  ["[1e+]", 4],
  ["[.5", 1],
  ["[+1", 1],
  ["tru_", 3],
  ["nan", 1],
  ['"\\x', 2],
  ['"\\u00g', 5],
  ['"a\nb"', 2],
  ["[}", 1],
  ['{"a":1]', 6],
] as const;

describe("JsonScanner", () => {
  test.each(VALUES)("accepts %s in any two pieces, and nothing after it", (value) => {
    for (let at = 0; at < value.length; at += 1) {
      const scanner = new JsonScanner({ root: "any" });
      expect(scanner.push(value.slice(0, at))).toEqual({ consumed: at, state: "incomplete" });
      expect(scanner.isWhole).toBe(false);
      expect(scanner.push(`${value.slice(at)} }`)).toEqual({ consumed: value.length - at, state: "complete" });
      expect(scanner.isWhole).toBe(true);
      expect(scanner.push("1")).toEqual({ consumed: 0, state: "complete" });
    }
  });

  test.each(BROKEN)("stops in %s at the first invalid character", (text, at) => {
    const scanner = new JsonScanner({ root: "any" });
    expect(scanner.push(text)).toEqual({ consumed: at, state: "invalid" });
    expect(scanner.push("1")).toEqual({ consumed: 0, state: "invalid" });
    expect(scanner.isWhole).toBe(false);
  });

  test("ends a top-level number with the character after it", () => {
    const scanner = new JsonScanner({ root: "any" });
    expect(scanner.push("-1.5")).toEqual({ consumed: 4, state: "incomplete" });
    expect(scanner.isWhole).toBe(true);
    expect(scanner.push("e")).toEqual({ consumed: 1, state: "incomplete" });
    expect(scanner.isWhole).toBe(false);
    expect(scanner.push("7 ")).toEqual({ consumed: 1, state: "complete" });
  });

  test("reports where a quotation mark would end a string, and a bracket its container", () => {
    const scanner = new JsonScanner({ root: "any" });
    const inString = [...'{"k": ["a\\"b\\u0041", 1], "n": "c"}'].map((char) => {
      scanner.push(char);
      return scanner.isInString ? "s" : ".";
    });
    expect(inString.join("")).toBe(".ss....ss.ss.....s.......ss...ss..");
    const brackets = new JsonScanner({ root: "any" });
    const seen = [...'{"k": ["a", 1], "n": -2}'].map((char) => {
      brackets.push(char);
      return brackets.isBeforeBracket ? brackets.depth : ".";
    });
    expect(seen.join("")).toBe("1.....2..2..21........1.");
  });

  test("requires an object with `root: object`", () => {
    expect(new JsonScanner({ root: "object" }).push(" [")).toEqual({ consumed: 1, state: "invalid" });
    expect(new JsonScanner({ root: "object" }).push(' {"a":[1]}')).toEqual({ consumed: 10, state: "complete" });
  });

  test("limits the depth", () => {
    expect(new JsonScanner({ root: "any", maxDepth: 3 }).push("[[[[")).toEqual({ consumed: 3, state: "invalid" });
    expect(new JsonScanner({ root: "any" }).push("[".repeat(512)).state).toBe("incomplete");
    expect(new JsonScanner({ root: "any" }).push("[".repeat(513)).state).toBe("invalid");
  });

  test("agrees with JSON.parse on damaged texts", () => {
    const random = seededRandom(7);
    const base = '{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"], "c": {"d": false}}';
    const alphabet = '{}[]",:\\ntrue-0.1eE+ \n';
    for (let round = 0; round < 5000; round += 1) {
      const at = Math.floor(random() * base.length);
      const char = alphabet.charAt(Math.floor(random() * alphabet.length));
      const text =
        random() < 0.5 ? base.slice(0, at) + char + base.slice(at + 1) : base.slice(0, at) + char + base.slice(at);
      const scanner = new JsonScanner({ root: "any" });
      const { consumed, state } = scanner.push(text);
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      expect(state === "complete" && text.slice(consumed).trim() === "", text).toBe(valid);
    }
  });
});
