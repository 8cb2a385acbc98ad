import { expect, test } from "vitest";
import { clustersText } from "../../../../../gateway/http/admin/cluster-routes.ts";

const endpoint = {
  address: "10.0.0.1:50051",
  healthFlags: [] as readonly string[],
  healthFailure: undefined as string | undefined,
  rqActive: 2,
  rqTotal: 40,
  rqError: 1,
  rqContinued: 3,
  weight: 3,
  slots: 8,
  running: 5,
  waiting: 1,
  kvUse: 0.25,
  outstandingPrefillTokens: 1_200,
  ejectedForMs: undefined,
};

test("clusters are printed as Envoy prints them, one value a line", () => {
  const healthFlags = ["/failed_active_hc", "/failed_outlier_check"];
  const sick = { ...endpoint, address: "[::1]:50052", healthFlags, healthFailure: "connection refused" };
  const text = clustersText([{ model: "svc-qwen", lbPolicy: "prefix_affinity", endpoints: [endpoint, sick] }]);
  const lines = text.split("\n");
  expect(lines.pop()).toBe("");
  expect(lines[0]).toBe("svc-qwen::observability_name::svc-qwen");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::health_flags::healthy");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::rq_active::2");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::rq_continued::3");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::kv_use::0.250");
  expect(lines).toContain("svc-qwen::[::1]:50052::health_flags::/failed_active_hc/failed_outlier_check");
  expect(lines.filter((line) => line.includes("health_failure"))).toEqual([
    "svc-qwen::[::1]:50052::health_failure::connection refused",
  ]);
});

test("a cluster without endpoints is printed", () => {
  const text = clustersText([{ model: "svc-qwen", lbPolicy: "random", endpoints: [] }]);
  expect(text).toBe("svc-qwen::observability_name::svc-qwen\nsvc-qwen::lb_policy::random\n");
});
