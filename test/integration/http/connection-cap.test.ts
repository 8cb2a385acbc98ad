import { expect, onTestFinished, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { startScriptedService } from "../../support/gateway/scripted-service.ts";
import { startAdmin } from "../../support/gateway/start-admin.ts";
import { RawConnection } from "../../support/http/raw-http.ts";
import { until } from "../../support/until.ts";

const capped = (most: number) => ({
  resourceMonitors: { globalDownstreamMaxConnections: { maxActiveDownstreamConnections: most } },
});

test("a connection beyond the limit is closed without a reply, counted and logged once", async () => {
  const service = await startScriptedService({ gateway: { overloadManager: capped(3) } });
  onTestFinished(() => service.stop());
  const { gateway } = service;
  const admin = await startAdmin(gateway);
  onTestFinished(() => admin.stop());
  const open = await Promise.all(Array.from({ length: 3 }, () => RawConnection.open(gateway.port)));
  await until(() => gateway.log.some((line) => line.includes('"maxConnections":3')), "the limit is said at the start");
  for (let at = 0; at < 5; at += 1) {
    const refused = await RawConnection.open(gateway.port);
    await refused.untilClosed();
    expect(refused.unread).toBe("");
  }
  const stats = await admin.text("/stats?filter=cx_overflow");
  expect(stats).toMatch(/^svc_downstream_cx_overflow_total 5$/m);
  expect(gateway.log.filter((line) => line.includes("connections are refused"))).toHaveLength(1);
  expect((await admin.get("/ready")).status).toBe(200);
  open[0]?.destroy();
  await becomes(async () => {
    const reply = await gateway.get("/v1/models").catch(() => undefined);
    return reply?.status === 200;
  }, "there is room again");
  for (const one of open) one.destroy();
});
