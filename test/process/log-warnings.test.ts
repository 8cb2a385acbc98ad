import { once } from "node:events";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { logWarnings } from "../../deploy/runtime/log/process-log.ts";

const CANARY = "canary-31d8";

let before: NodeJS.WarningListener[];

beforeEach(() => {
  before = process.listeners("warning");
});

afterEach(() => {
  process.removeAllListeners("warning");
  for (const listener of before) process.on("warning", listener);
});

test("a warning of Node is one line with its name, its code and its origin", async () => {
  const lines: string[] = [];
  logWarnings(pino({ base: null }, { write: (line) => lines.push(line) }));
  expect(process.listenerCount("warning")).toBe(1);
  const warned = once(process, "warning");
  process.emitWarning(`what a user sent: ${CANARY}`, { type: "DeprecationWarning", code: "DEP9999" });
  await warned;
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: 40, warning: "DeprecationWarning", code: "DEP9999" });
  expect(lines[0]).not.toContain(CANARY);
});

test("a warning that is meaningless to operators is not written", async () => {
  const lines: string[] = [];
  logWarnings(pino({ base: null }, { write: (line) => lines.push(line) }));
  const warned = once(process, "warning");
  process.emitWarning("a server name that is an address", { type: "DeprecationWarning", code: "DEP0123" });
  await warned;
  expect(lines).toEqual([]);
});
