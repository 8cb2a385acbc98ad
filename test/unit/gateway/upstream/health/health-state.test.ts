import { describe, expect, test } from "vitest";
import { HealthState } from "../../../../../gateway/upstream/health/health-state.ts";

/** p: a check passed, f: it failed, n: the node reported NOT_SERVING. */
function play(checks: string): { readonly healthy: boolean; readonly well: boolean } {
  const state = new HealthState({ unhealthyThreshold: 2, healthyThreshold: 3 });
  for (const check of checks) {
    if (check === "p") state.pass();
    else if (check === "f") state.fail();
    else state.failNow();
  }
  return { healthy: state.healthy, well: state.well };
}

describe("with 2 failures to become unhealthy and 3 passes to become healthy", () => {
  test.each([
    ["", "nothing is healthy before a check"],
    ["f", "the first failure decides"],
    ["n", "so does the node's own word"],
    ["pff", "two failures in a row count"],
    ["pn", "the node's own word needs no second failure"],
    ["pffpp", "two passes are not enough afterwards"],
    ["pffppf", "a failure in between begins the row anew"],
    ["pffppfpp", "and the passes after it are two again"],
    ["fpp", "nor are they after a first failure"],
    ["pffppn", "the node's own word begins the row anew, too"],
  ])("after %o it is not healthy: %s", (checks) => {
    expect(play(checks)).toEqual({ healthy: false, well: false });
  });

  test.each([
    ["p", true, "the first pass decides"],
    ["pf", false, "one failure raises doubt"],
    ["pfp", true, "a pass ends the doubt"],
    ["pfpf", false, "failures that are not in a row do not count together"],
    ["pffppp", true, "three passes in a row bring it back"],
    ["nppp", true, "also where it never was healthy"],
  ])("after %o it is healthy, and well is %o: %s", (checks, well) => {
    expect(play(checks)).toEqual({ healthy: true, well });
  });
});
