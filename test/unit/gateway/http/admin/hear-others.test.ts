import { expect, test } from "vitest";
import { gatewayReportSchema } from "../../../../../gateway/fleet/gateway-report.ts";
import { hearOthers } from "../../../../../gateway/http/admin/fleet/hear-others.ts";

const TOTALS = { active: 0, queued: 0, requests: 0, errors: 0, deltas: 0 };
const CACHES = { promptTokens: 0, expectedTokens: 0, cachedTokens: 0, firstTokens: [] };

/** A report as it comes from another gateway, with these parts of its models. */
function reportOf(id: string, models: readonly object[]) {
  return gatewayReportSchema.parse({
    ...{ id, host: "h", worker: 1, state: "LIVE", uptimeMs: 0, connections: 0, rssBytes: 0, cpuMs: 0, loopActiveMs: 0 },
    models: models.map((model) => ({ ...TOTALS, ...CACHES, ...model })),
    nodes: [],
  });
}

test("each cluster hears what others told of their turns for its model, and when", () => {
  const heard: unknown[] = [];
  const traffic = ["a", "b"].map((model) => ({
    cluster: { model },
    admission: { peers: { hear: (...told: readonly unknown[]) => heard.push([model, ...told]) } },
  }));
  const turns = {
    ...{ served: 1, wanted: 2, dueSeconds: null, sessions: [{ session: "s", served: 1, wanted: 2 }] },
    conversations: [{ conversation: "c", address: "a:1", tokens: 1_000, ageMs: 500 }],
  };
  const told = reportOf("one", [
    { model: "b", turns },
    { model: "unknown", turns },
  ]);
  // A gateway of an older version tells nothing of turns.
  const silent = reportOf("two", [{ model: "a" }]);
  hearOthers({ traffic, clock: { nowMs: () => 5_000 } })([
    { report: told, ageMs: 1_200 },
    { report: silent, ageMs: 0 },
  ]);
  expect(heard).toEqual([["b", "one", turns, 3_800]]);
});
