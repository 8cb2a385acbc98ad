import { statSync } from "node:fs";
import { join } from "node:path";
import { credentials, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseSse } from "../support/http/sse-reader.ts";
import { type Service, startService } from "../support/processes/start-service.ts";

/* The service as a new user starts it: real processes, real gRPC, the demonstration model. */

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => {
  await service?.stop();
});

const QUESTION = "Which endpoints does this API offer?";
const turn = [{ role: "user", content: QUESTION }];
const FORMATS = [
  { path: "/v1/chat/completions", body: { model: "svc-qwen", messages: turn, temperature: 0 } },
  { path: "/v1/messages", body: { model: "svc-qwen", messages: turn, max_tokens: 200, temperature: 0 } },
  { path: "/v1/responses", body: { model: "svc-qwen", input: QUESTION, temperature: 0 } },
] as const;

type Json = Readonly<Record<string, unknown>>;

/** Text, finish reason and usage of a folded reply, whatever its format. */
function view(path: string, reply: Json) {
  if (path === "/v1/chat/completions") {
    const { choices, usage } = reply as unknown as {
      choices: { message: { content: string } }[];
      usage: { prompt_tokens: number; completion_tokens: number };
    };
    return { text: choices[0]?.message.content, input: usage.prompt_tokens, output: usage.completion_tokens };
  }
  const { usage } = reply as unknown as { usage: { input_tokens: number; output_tokens: number } };
  const cached = Number((usage as unknown as Json).cache_read_input_tokens ?? 0);
  const text =
    path === "/v1/messages"
      ? (reply as unknown as { content: { text: string }[] }).content.map((block) => block.text).join("")
      : String(reply.output_text);
  return { text, input: usage.input_tokens + cached, output: usage.output_tokens };
}

/** The final object of a stream: assembled for chat and messages, sent complete by responses. */
function streamedView(path: string, sse: string) {
  const data = parseSse(sse)
    .map((event) => event.data)
    .filter((one) => one !== "[DONE]") as Json[];
  if (path === "/v1/responses") return view(path, data.at(-1)?.response as unknown as Json);
  if (path === "/v1/messages") {
    const text = data.map((one) => (one.delta as Json | undefined)?.text ?? "").join("");
    const usage = data.find((one) => one.type === "message_delta")?.usage;
    return view(path, { content: [{ text }], usage } as unknown as Json);
  }
  const content = data.map((one) => (one.choices as unknown as { delta: Json }[])[0]?.delta.content ?? "").join("");
  return view(path, { choices: [{ message: { content } }], usage: data.at(-1)?.usage } as unknown as Json);
}

describe.each(FORMATS)("$path", ({ path, body }) => {
  test("answers a plain question, streamed as folded, with the same usage", async () => {
    const folded = view(path, (await (await service.post(path, body)).json()) as Json);
    expect(folded.text).toContain("/v1/chat/completions");
    expect(folded.text).toContain("/v1/messages");
    const streaming = {
      ...body,
      stream: true,
      ...(path.includes("chat") && { stream_options: { include_usage: true } }),
    };
    const streamed = streamedView(path, await (await service.post(path, streaming)).text());
    expect(streamed).toEqual(folded);
    expect(folded.input).toBeGreaterThan(5);
    expect(folded.output).toBeGreaterThan(10);
  });
});

test("count_tokens is the usage of the same messages request", async () => {
  const body = {
    model: "svc-glm53",
    system: "You are brief. <|im_end|> 🚀",
    messages: [{ role: "user", content: "Read src/gateway/router.ts" }],
    tools: [{ name: "read_file", description: "Read a file", input_schema: { type: "object", properties: {} } }],
  };
  const counted = (await (await service.post("/v1/messages/count_tokens", body)).json()) as { input_tokens: number };
  const reply = (await (await service.post("/v1/messages", { ...body, max_tokens: 1 })).json()) as Json;
  const { usage } = reply as unknown as { usage: Record<string, number> };
  expect(Object.keys(counted)).toEqual(["input_tokens"]);
  const sum =
    (usage.input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
  expect(sum).toBe(counted.input_tokens);
});

test("a key that is made and revoked while the service runs counts within a second", async () => {
  const made = JSON.parse(await service.keys("create", "--name", "ci", "--models", "svc-qwen", "--json")) as Json;
  const authorization = `Bearer ${made.key}`;
  const models = async () => {
    const response = await fetch(`${service.baseUrl}/v1/models`, { headers: { authorization } });
    const body = (await response.json()) as { data?: { id: string }[] };
    return response.ok ? body.data?.map((model) => model.id) : response.status;
  };
  await expect.poll(models, { timeout: 5_000, interval: 50 }).toEqual(["svc-qwen"]);
  await service.keys("revoke", String(made.id ?? (made.record as Json | undefined)?.id));
  await expect.poll(models, { timeout: 5_000, interval: 50 }).toBe(401);
});

async function engineMetric(name: string): Promise<number> {
  const text = await (await fetch(service.engineMetricsUrl)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

test("a client that leaves in mid-stream frees the engine's slot", async () => {
  // Read first: the answer takes about a second.
  const before = await engineMetric("svc_engine_cancel_latency_seconds_count");
  const controller = new AbortController();
  const response = await fetch(`${service.baseUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "svc-qwen",
      messages: [{ role: "user", content: "Count from 1 to 75" }],
      stream: true,
    }),
    signal: controller.signal,
  });
  await (response.body as ReadableStream).getReader().read();
  controller.abort();
  const cancelled = () => engineMetric("svc_engine_cancel_latency_seconds_count");
  await expect.poll(cancelled, { timeout: 30_000 }).toBe(before + 1);
  expect(await engineMetric("svc_engine_slots_busy")).toBe(0);
});

test("an internal client generates with nothing but the .proto files", async () => {
  const root = join(import.meta.dirname, "../../proto");
  const definition = loadSync("svc/inference/v1/inference_service.proto", {
    keepCase: true,
    oneofs: true,
    includeDirs: [root],
  });
  const packages = loadPackageDefinition(definition) as unknown as {
    svc: { inference: { v1: { InferenceService: ServiceClientConstructor } } };
  };
  const client = new packages.svc.inference.v1.InferenceService(service.engine, credentials.createInsecure());
  const call = client.Generate?.({
    request_id: "internal-1",
    model: "svc-qwen",
    messages: [{ role: "ROLE_USER", parts: [{ text: { text: "Count from 1 to 12." } }] }],
    sampling: { temperature: 0 },
  }) as unknown as AsyncIterable<{ events: { block_delta?: { text: string }; finished?: object }[] }>;
  let text = "";
  let last: object | undefined;
  for await (const { events } of call)
    for (const event of events) {
      text += event.block_delta?.text ?? "";
      last = event;
    }
  client.close();
  expect(text).toContain("1, 2, 3, 4, 5");
  expect(last).toHaveProperty("finished");
});

test("the ready-made key lies in a file that only its owner reads", () => {
  expect(statSync(join(service.stateDir, "local-key")).mode & 0o777).toBe(0o600);
});
