import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { WireNode } from "../../support/engine/wire-node.ts";
import { textAnswer } from "../../support/events/events.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const CHAT = "/v1/chat/completions";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";

type Line = Readonly<Record<string, unknown>>;

let node: WireNode;
let gateway: RunningGateway;

beforeAll(async () => {
  node = await WireNode.start({
    models: CATALOG.map(({ id }) => id),
    play(call) {
      call.send(...textAnswer("Hello."));
      call.end();
    },
  });
  gateway = await startGateway([node.address]);
});

afterAll(async () => {
  await gateway.stop();
  node.stop();
});

/** The headers of the newest call of a generation or a count. */
const callHeaders = () => node.headers.findLast((headers) => /Generate|CountTokens/.test(String(headers[":path"])));

async function lineOf(response: Response, of: RunningGateway = gateway): Promise<Line> {
  await response.text();
  const id = response.headers.get("x-request-id");
  const found = () => of.log.find((line) => line.includes(`"request_id":"${id}"`));
  await until(() => found() !== undefined, "the request is logged");
  return JSON.parse(found() ?? "");
}

describe("the line of a request", () => {
  test.each([true, false])(
    "the line of a request that went well has sizes, times and no flags (stream %s)",
    async (stream) => {
      const line = await lineOf(await gateway.post(CHAT, { ...MINIMAL[CHAT], stream }));
      expect(line).toMatchObject({ method: "POST", route: CHAT, code: 200, stream, attempts: 1, response_flags: "-" });
      expect(line.bytes_in).toBe(JSON.stringify({ ...MINIMAL[CHAT], stream }).length);
      expect(line.bytes_out).toBeGreaterThan(100);
      for (const name of ["queue_ms", "accept_ms", "ttft_ms", "total_ms"]) expect(line[name]).toBeGreaterThanOrEqual(0);
      expect(line).toMatchObject({ format: "chat", client_ip: "127.0.0.0/24", ua_family: "node" });
    },
  );

  test("the line of a request has a flag for a path that no route has", async () => {
    const line = await lineOf(await gateway.get("/v1/nothing-like-this"));
    expect(line).toMatchObject({ route: "unknown", code: 404, response_flags: "NR" });
    expect(JSON.stringify(line)).not.toContain("nothing-like-this");
  });

  test("the line of a request has the flag of a model without an endpoint", async () => {
    const alone = await gatewayOf([]);
    const line = await lineOf(await alone.post(CHAT, MINIMAL[CHAT]), alone);
    expect(line).toMatchObject({ code: 503, detail: "no_healthy_upstream", response_flags: "UH" });
    expect(line).not.toHaveProperty("endpoint");
  });

  test("the line of a request has the flag of a key that used up its limit", async () => {
    const key = await gateway.createKey("--name", "slow", "--models", "*", "--rpm", "1");
    const ask = () => gateway.post(CHAT, MINIMAL[CHAT], { authorization: `Bearer ${key}` });
    expect((await lineOf(await ask())).code).toBe(200);
    const line = await lineOf(await ask());
    expect(line).toMatchObject({ code: 429, detail: "key_rpm_exceeded", response_flags: "RL" });
  });
});

describe("the trace of a request", () => {
  test.each([CHAT, "/v1/messages/count_tokens"] as const)(
    "a trace continues to the engine under the gateway's span: %s",
    async (path) => {
      const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "vendor=1", baggage: "user=secret" };
      const line = await lineOf(await gateway.post(path, MINIMAL[path], headers));
      expect(line.trace_id).toBe(TRACE);
      expect(line.span_id).toMatch(/^[0-9a-f]{16}$/);
      expect(line.span_id).not.toBe(PARENT);
      expect(callHeaders()).toMatchObject({ traceparent: `00-${TRACE}-${line.span_id}-01`, tracestate: "vendor=1" });
      expect(callHeaders()).not.toHaveProperty("baggage");
    },
  );

  test("the trace of a request begins here where the caller's cannot be read", async () => {
    const line = await lineOf(await gateway.post(CHAT, MINIMAL[CHAT], { traceparent: `00-${TRACE}-${PARENT}` }));
    expect(line.trace_id).toMatch(/^[0-9a-f]{32}$/);
    expect(line.trace_id).not.toBe(TRACE);
    expect(callHeaders()?.traceparent).toBe(`00-${line.trace_id}-${line.span_id}-00`);
  });
});
