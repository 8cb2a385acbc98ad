import { describe, expect, test } from "vitest";
import { crashReport } from "../../../../../deploy/runtime/process/end-on-crash.ts";

const CANARY = "canary-77c0";

function thrownBy(throwing: () => never): unknown {
  try {
    return throwing();
  } catch (thrown) {
    return thrown;
  }
}

describe("the log line of an uncaught error", () => {
  test("the log line of an uncaught error is its class and where it was thrown, and nothing of its message", () => {
    const thrown = thrownBy(() => {
      throw new RangeError(`${CANARY}\n    at ${CANARY} (file:1:1)`);
    });
    const report = crashReport(thrown);
    expect(report.error).toBe("RangeError");
    expect(report.at[0]).toContain("end-on-crash.test.ts");
    expect(JSON.stringify(report)).not.toContain(CANARY);
  });

  test("the log line of an uncaught error is the system's word where there is one, and no other code", () => {
    expect(crashReport(Object.assign(new Error(""), { code: "ENOMEM" }))).toMatchObject({ code: "ENOMEM" });
    expect(crashReport(Object.assign(new Error(""), { code: CANARY }))).not.toHaveProperty("code");
  });

  test("the log line of an uncaught error is no more than the error's class when the stack does not begin with its message", () => {
    const thrown = Object.assign(new Error("another"), { stack: `${CANARY}\n    at ${CANARY}` });
    expect(crashReport(thrown)).toEqual({ error: "Error", at: [] });
  });

  test.each([CANARY, { message: CANARY }, undefined, null])(
    "the log line has the type of a thrown value that is no error",
    (thrown) => {
      expect(crashReport(thrown)).toEqual({ error: typeof thrown, at: [] });
    },
  );
});
