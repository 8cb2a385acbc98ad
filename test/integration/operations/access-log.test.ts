import { type Metadata, Server, ServerCredentials, type ServerWritableStream, type sendUnaryData } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import {
  type HealthCheckResponse,
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../../proto/gen/grpc/health/v1/health.ts";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  DescribeNodeResponse,
  ModelDescription,
  NodeServiceService,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { textAnswer } from "../../support/events/events.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const CHAT = "/v1/chat/completions";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";

type Line = Readonly<Record<string, unknown>>;

/** A node with a constant answer that records the metadata of each call. */
class NotingNode {
  readonly metadata: Metadata[] = [];
  readonly #server = new Server();

  constructor() {
    const models = CATALOG.map(({ id }) => ModelDescription.fromPartial({ id, maxConcurrentRequests: 4 }));
    const serving: HealthCheckResponse = { status: Serving.SERVING };
    this.#server.addService(HealthService, {
      check: (_call: unknown, reply: sendUnaryData<HealthCheckResponse>) => reply(null, serving),
      watch: (call: ServerWritableStream<unknown, HealthCheckResponse>) => call.write(serving),
    });
    this.#server.addService(NodeServiceService, {
      describeNode: (_call: unknown, reply: sendUnaryData<DescribeNodeResponse>) =>
        reply(null, { ...DescribeNodeResponse.fromPartial({ nodeId: "n1" }), models }),
    });
    this.#server.addService(InferenceServiceService, {
      generate: (call: ServerWritableStream<unknown, unknown>) => {
        this.metadata.push(call.metadata);
        call.write({ events: textAnswer("Hello."), tokens: [] });
        call.end();
      },
      countTokens: (call: { readonly metadata: Metadata }, reply: sendUnaryData<{ inputTokens: number }>) => {
        this.metadata.push(call.metadata);
        reply(null, { inputTokens: 3 });
      },
    });
  }

  start(): Promise<string> {
    return new Promise((resolve, reject) =>
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
        error ? reject(error) : resolve(`127.0.0.1:${port}`),
      ),
    );
  }

  stop(): void {
    this.#server.forceShutdown();
  }
}

const node = new NotingNode();
let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startGateway([await node.start()]);
});

afterAll(async () => {
  await gateway.stop();
  node.stop();
});

/** Resolves to the log line of the request that `response` answered. */
async function lineOf(response: Response, of: RunningGateway = gateway): Promise<Line> {
  await response.text();
  const id = response.headers.get("x-request-id");
  const found = () => of.log.find((line) => line.includes(`"request_id":"${id}"`));
  await until(() => found() !== undefined, "the request is logged");
  return JSON.parse(found() ?? "");
}

describe("the line of a request", () => {
  test.each([true, false])("that went well has sizes, times and no flags (stream %s)", async (stream) => {
    const line = await lineOf(await gateway.post(CHAT, { ...MINIMAL[CHAT], stream }));
    expect(line).toMatchObject({ method: "POST", route: CHAT, code: 200, stream, attempts: 1, response_flags: "-" });
    expect(line.bytes_in).toBe(JSON.stringify({ ...MINIMAL[CHAT], stream }).length);
    expect(line.bytes_out).toBeGreaterThan(100);
    for (const name of ["queue_ms", "accept_ms", "ttft_ms", "total_ms"]) expect(line[name]).toBeGreaterThanOrEqual(0);
    expect(line).toMatchObject({ format: "chat", client_ip: "127.0.0.0/24", ua_family: "node" });
  });

  test("has a flag for a path that no route has", async () => {
    const line = await lineOf(await gateway.get("/v1/nothing-like-this"));
    expect(line).toMatchObject({ route: "unknown", code: 404, response_flags: "NR" });
    expect(JSON.stringify(line)).not.toContain("nothing-like-this");
  });

  test("has the flag of a model without an endpoint", async () => {
    const alone = await startGateway([]);
    try {
      const line = await lineOf(await alone.post(CHAT, MINIMAL[CHAT]), alone);
      expect(line).toMatchObject({ code: 503, detail: "no_healthy_upstream", response_flags: "UH" });
      expect(line).not.toHaveProperty("endpoint");
    } finally {
      await alone.stop();
    }
  });

  test("has the flag of a key that used up its limit", async () => {
    const key = await gateway.createKey("--name", "slow", "--models", "*", "--rpm", "1");
    const ask = () => gateway.post(CHAT, MINIMAL[CHAT], { authorization: `Bearer ${key}` });
    expect((await lineOf(await ask())).code).toBe(200);
    const line = await lineOf(await ask());
    expect(line).toMatchObject({ code: 429, detail: "key_rpm_exceeded", response_flags: "RL" });
  });
});

describe("the trace of a request", () => {
  test.each([CHAT, "/v1/messages/count_tokens"] as const)(
    "continues to the engine under the gateway's span: %s",
    async (path) => {
      const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "vendor=1", baggage: "user=secret" };
      const line = await lineOf(await gateway.post(path, MINIMAL[path], headers));
      expect(line.trace_id).toBe(TRACE);
      expect(line.span_id).toMatch(/^[0-9a-f]{16}$/);
      expect(line.span_id).not.toBe(PARENT);
      const metadata = node.metadata.at(-1);
      expect(metadata?.get("traceparent")).toEqual([`00-${TRACE}-${line.span_id}-01`]);
      expect(metadata?.get("tracestate")).toEqual(["vendor=1"]);
      expect(metadata?.get("baggage")).toEqual([]);
    },
  );

  test("begins here where the caller's cannot be read", async () => {
    const line = await lineOf(await gateway.post(CHAT, MINIMAL[CHAT], { traceparent: `00-${TRACE}-${PARENT}` }));
    expect(line.trace_id).toMatch(/^[0-9a-f]{32}$/);
    expect(line.trace_id).not.toBe(TRACE);
    expect(node.metadata.at(-1)?.get("traceparent")).toEqual([`00-${line.trace_id}-${line.span_id}-00`]);
  });
});
