import { describe, expect, test } from "vitest";
import { engineRegistry, gatewayRegistry } from "../../deploy/docs/live-registries.ts";
import { noPromtool, promtool } from "../support/tools/promtool.ts";

describe.skipIf(noPromtool !== "")("promtool finds no fault in the metrics", () => {
  test.each([
    ["gateway", gatewayRegistry],
    ["engine", engineRegistry],
  ] as const)("of the %s, those of the platform included", async (_program, registry) => {
    expect(promtool(["check", "metrics"], await registry().metrics())).toEqual({ code: 0, said: "" });
  });
});
