import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { exportLog } from "../../../../../deploy/runtime/tracing/trace-export.ts";

const failed = (fields: object) => JSON.stringify({ stack: "at somewhere", name: "Error", ...fields });

describe("complaints of the SDK in the log", () => {
  function logged(...complaints: readonly (readonly [atMs: number, message: string])[]): Record<string, unknown>[] {
    const lines: Record<string, unknown>[] = [];
    let nowMs = 0;
    const log = pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(JSON.parse(line)) });
    const diag = exportLog(log, () => nowMs);
    for (const [atMs, message] of complaints) {
      nowMs = atMs;
      diag.error(message);
    }
    return lines;
  }

  test("complaints of the SDK stand in the log once a minute, with the number of those that do not", () => {
    const refused = failed({ code: "ECONNREFUSED" });
    const lines = logged([0, refused], [1, refused], [59_999, refused], [60_000, refused], [61_000, refused]);
    expect(lines.map(({ unsaid }) => unsaid)).toEqual([undefined, 2]);
  });

  test.each([
    ["a code, where there is one", failed({ code: "401", message: "who are you?", data: "body" }), "401"],
    ["or else the SDK's own sentence", failed({ message: "Request timed out" }), "Request timed out"],
    [
      "a sentence that is no error",
      "Dropped 7 spans because maxQueueSize reached",
      "Dropped 7 spans because maxQueueSize reached",
    ],
  ])("a complaint of the tracing SDK is logged as %s", (_what, complaint, reason) => {
    expect(logged([0, complaint])).toEqual([{ level: 40, reason, msg: "traces cannot be exported" }]);
  });
});
