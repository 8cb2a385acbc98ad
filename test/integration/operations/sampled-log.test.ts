import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { metricSum } from "../../support/metric-text.ts";
import { POST_PATHS } from "../../support/requests/minimal-bodies.ts";

const service = serviceOfFile({ gateway: { accessLog: { percentSampled: 0 } } });

test("a log that samples no request has a line of each that failed, and all are counted", async () => {
  const { gateway } = service;
  for (const path of POST_PATHS) {
    expect((await service.post(path)).status).toBe(200);
    expect((await service.post(path, { model: "nothing" })).status).toBe(400);
  }
  expect((await gateway.get("/v1/models", { authorization: "Bearer no" })).status).toBe(401);
  const lines = () => gateway.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request");
  const all = 2 * POST_PATHS.length + 1;
  const counted = async () => metricSum(await gateway.stats.registry.metrics(), "svc_http_requests_total");
  await becomes(async () => (await counted()) === all, "all are counted");
  expect(lines().map(({ code }) => code)).toEqual([...POST_PATHS.map(() => 400), 401]);
});
