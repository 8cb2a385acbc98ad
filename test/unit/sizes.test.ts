import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { parseAst } from "vitest/node";

const ROOT = resolve(import.meta.dirname, "../..");

const MOST_FILES = 20;
const MOST_LINES = 60;

/** What tests play back, not what somebody reads to find a place. */
const DATA = ["test/agent-requests", "test/golden/transcripts"];

const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);

type SyntaxNode = { readonly type: string; readonly start: number; readonly end: number };

type LongFunction = { readonly line: number; readonly lines: number };

const filesIn = (...rooms: readonly string[]): string[] =>
  rooms
    .flatMap((room) => readdirSync(join(ROOT, room), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value && "end" in value;
}

/** Every node of a syntax tree, the root included. */
function* nodesOf(value: unknown): Generator<SyntaxNode> {
  if (isNode(value)) yield value;
  if (typeof value === "object" && value !== null) for (const child of Object.values(value)) yield* nodesOf(child);
}

/**
 * The functions of a source text that take more than `MOST_LINES` lines, from the first of their parameters or name.
 */
function longFunctions(text: string): LongFunction[] {
  const lineAt = (offset: number): number => text.slice(0, offset).split("\n").length;
  return [...nodesOf(parseAst(text, { lang: "ts" }))]
    .filter((node) => FUNCTIONS.has(node.type))
    .map((node) => ({ line: lineAt(node.start), lines: lineAt(node.end) - lineAt(node.start) + 1 }))
    .filter(({ lines }) => lines > MOST_LINES);
}

test("a folder holds no more source files than somebody takes in at once", () => {
  const counts = new Map<string, number>();
  for (const file of filesIn("gateway", "engine", "deploy", "test"))
    counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);
  const crowded = [...counts].filter(([folder, count]) => count > MOST_FILES && !DATA.includes(folder));
  expect(crowded).toEqual([]);
});

test.each([
  ["a declaration", (body: string) => `function f() {${body}}`],
  ["an arrow", (body: string) => `const f = (a: number): void => {${body}};`],
  ["a method", (body: string) => `class A<T> { readonly a = 1 as const; m(): void {${body}} }`],
  ["a function within another", (body: string) => `const f = () => g(async () => {${body}});`],
])("%s is measured from its start to its end", (_name, source) => {
  expect(longFunctions(source("\n".repeat(MOST_LINES - 1)))).toEqual([]);
  expect(longFunctions(source("\n".repeat(MOST_LINES)))).toContainEqual({ line: 1, lines: MOST_LINES + 1 });
});

test("no function is longer than a screen", () => {
  const long = filesIn("gateway", "engine", "deploy").flatMap((file) =>
    longFunctions(readFileSync(join(ROOT, file), "utf8")).map(({ line, lines }) => `${file}:${line}: ${lines} lines`),
  );
  expect(long).toEqual([]);
});
