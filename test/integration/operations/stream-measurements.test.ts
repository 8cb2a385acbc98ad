import { expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { administeredService } from "../../support/gateway/administered-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";

const rig = administeredService();

test("the gap between two writes is counted, and the longest one logged", async () => {
  const { passed, open } = latch();
  rig.service.play(async function* () {
    yield [started(), textStart(0), delta(0, "first ")];
    await passed;
    yield [delta(0, "last"), blockEnd(0), finished()];
  });
  const gaps = () => rig.admin.stat("svc_inter_delta_gap_seconds_count", `model="${MODEL}"`);
  const before = await gaps();
  const response = await rig.service.post(CHAT, { stream: true });
  const id = response.headers.get("x-request-id") ?? "";
  const body = readBody(response);
  await body.until((text) => text.includes("first "));
  open();
  await body.toEnd();
  await until(() => rig.service.gateway.log.some((line) => line.includes(id)), "the request is logged");
  const line = JSON.parse(rig.service.gateway.log.find((one) => one.includes(id)) ?? "");
  expect(line.max_gap_ms).toBeGreaterThanOrEqual(0);
  expect(await gaps()).toBeGreaterThan(before);
});

test("a disconnected client is counted with the time until its engine was freed", async () => {
  const { passed, open } = latch();
  rig.service.play(async function* () {
    yield [started(), textStart(0), delta(0, "first ")];
    await passed;
  });
  const leaving = new AbortController();
  const response = await fetch(`${rig.service.gateway.baseUrl}${CHAT}`, {
    method: "POST",
    headers: { authorization: `Bearer ${rig.service.gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ ...MINIMAL[CHAT], stream: true }),
    signal: leaving.signal,
  });
  const id = response.headers.get("x-request-id") ?? "";
  leaving.abort();
  await until(() => rig.service.gateway.log.some((line) => line.includes(id)), "the request is logged");
  open();
  const line = JSON.parse(rig.service.gateway.log.find((one) => one.includes(id)) ?? "");
  expect(line).toMatchObject({ end_reason: "client_closed", response_flags: "DC" });
  expect(await rig.admin.text("/stats?filter=svc_cancel_latency")).toMatch(/^svc_cancel_latency_seconds_count 1$/m);
  expect(await rig.admin.stat("svc_streams_active", 'format="chat"')).toBe(0);
});
