import { expect, test } from "vitest";
import { ChildFailed } from "../../../../deploy/local/child.ts";
import { whyFailed } from "../../../../deploy/local/model.ts";

test("a failed download reports the cause below the library's error", () => {
  const system = Object.assign(new Error("getaddrinfo ENOTFOUND a.host"), { code: "ENOTFOUND" });
  const cause = new TypeError("fetch failed", { cause: system });
  expect(whyFailed(new Error("no such model\nand more", { cause }))).toBe("no such model (ENOTFOUND)");
  expect(whyFailed(new Error("no such model"))).toBe("no such model");
  expect(whyFailed("nothing")).toBe("nothing");
  expect(whyFailed(new Error("fetch failed"), system)).toBe("fetch failed (ENOTFOUND)");
});

test("an engine that was killed at its start is asked after for its memory", () => {
  expect(new ChildFailed("engine 1", 1, "SIGKILL").message).toContain("too little memory");
  expect(new ChildFailed("engine 1", 2, "exit code 2").message).toBe("the engine 1 did not start (exit code 2)");
});
