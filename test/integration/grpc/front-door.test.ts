import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { BadRequest, RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import {
  CountTokensRequest,
  FinishReason,
  type GenerateRequest,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { becomes } from "../../support/becomes.ts";
import { type Ended, NodeClient } from "../../support/engine/node-client.ts";
import {
  blockEnd,
  delta,
  finished,
  started,
  textAnswer,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { latch } from "../../support/latch.ts";
import { keyCommand } from "../../support/processes/key-command.ts";
import { generateRequest, toolOf } from "../../support/requests/generate-request.ts";

/* Generate and CountTokens of the gateway's gRPC listener, with the rules of the public API. */

const service = serviceOfFile({ gateway: { grpc: { port: 0 }, maxBodyBytes: 4_194_304 } });
let client: NodeClient;

beforeAll(() => {
  client = new NodeClient(service.gateway.grpcAddress, undefined, { authorization: `Bearer ${service.gateway.key}` });
});

afterAll(() => client.close());

function callerWith(headers: Readonly<Record<string, string>>): NodeClient {
  const caller = new NodeClient(service.gateway.grpcAddress, undefined, headers);
  onTestFinished(() => caller.close());
  return caller;
}

function holdAnswer(): () => void {
  const { passed, open } = latch();
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "held ")];
    await passed;
    yield [blockEnd(0), finished()];
  });
  return open;
}

async function refusalOf(request: GenerateRequest, caller = client): Promise<Ended> {
  return caller.generate(request).ended;
}

function detailOf<Message>(ended: Ended, name: string, decode: (bytes: Uint8Array) => Message): Message | undefined {
  const [bytes] = ended.metadata.get("grpc-status-details-bin");
  if (!Buffer.isBuffer(bytes)) return undefined;
  const found = Status.decode(bytes).details.find(({ typeUrl }) => typeUrl.endsWith(`.${name}`));
  return found && decode(found.value);
}

function fieldOf(ended: Ended): string | undefined {
  return detailOf(ended, "BadRequest", (bytes) => BadRequest.decode(bytes))?.fieldViolations[0]?.field;
}

describe("answers", () => {
  test("answers follow the contract, without the fields between nodes and gateways", async () => {
    service.play(() => [
      [started({ nodeId: "secret-host" }), toolCallStart(0, "look", "functions.look:0"), delta(0, "{}"), blockEnd(0)],
      { events: [finished(FinishReason.TOOL_CALLS)], tokens: [7] },
    ]);
    const reading = client.generate(generateRequest());
    expect(await reading.ended).toMatchObject({ code: 0 });
    expect(reading.legal() && reading.finished()).toBe(true);
    expect(reading.tokens).toEqual([]);
    expect(reading.events[0]?.kind).toMatchObject({ $case: "started", value: { nodeId: "" } });
    const { kind } = reading.events[1] ?? {};
    const block = kind?.$case === "blockStarted" ? kind.value.block : undefined;
    // A unique id, as in other formats.
    expect(block?.$case === "toolCall" ? block.value.callId : "").toMatch(/^call_[0-9a-f]{24}$/);
  });

  test("G4 fields reserved for gateways are set by the gateway", async () => {
    const theirs = generateRequest({
      requestId: "mine",
      tenant: "somebody-else",
      priority: 100,
      resumable: true,
      prefixDigests: Buffer.alloc(16, 1),
      cache: { affinityKey: "my-session", isolationSalt: "their-salt", ttl: { seconds: 60, nanos: 0 } },
      stream: { maxBatchDelay: { seconds: 1, nanos: 0 } },
    });
    const reasoned = {
      role: Role.ASSISTANT,
      parts: [
        {
          kind: { $case: "reasoning", value: { text: "hm", signature: Buffer.from("forged"), redacted: false } },
          cacheBreakpoint: undefined,
        },
      ],
    } as const;
    await client.generate({ ...theirs, messages: [...theirs.messages, reasoned, ...theirs.messages] }).ended;
    const seen = service.lastRequest();
    expect(seen.requestId).toMatch(/^req_/);
    expect(seen.tenant).toBe(service.gateway.keys.find(service.gateway.key)?.tenant);
    expect(seen.priority).toBe(0);
    expect(seen.stream).toBeUndefined();
    expect(seen.prefixDigests.includes(Buffer.alloc(16, 1))).toBe(false);
    expect(seen.cache?.isolationSalt).not.toBe("their-salt");
    expect(seen.cache?.affinityKey).toMatch(/^[\w-]{43}$/);
    expect(seen.cache?.ttl).toEqual({ seconds: 60, nanos: 0 });
    const part = seen.messages[1]?.parts[0]?.kind;
    expect(part?.$case === "reasoning" ? part.value : undefined).toMatchObject({ text: "hm" });
    expect(part?.$case === "reasoning" ? part.value.signature.length : -1).toBe(0);
  });

  test("the same text over HTTP reaches the engine as the same prompt, of the same tenant", async () => {
    await service.reply("/v1/chat/completions", { messages: [{ role: "user", content: "hello" }] });
    const overHttp = service.lastRequest();
    await client.generate(generateRequest()).ended;
    const overGrpc = service.lastRequest();
    expect(overGrpc.messages).toEqual(overHttp.messages);
    expect(overGrpc.tenant).toBe(overHttp.tenant);
    expect(overGrpc.cache?.isolationSalt).toBe(overHttp.cache?.isolationSalt);
    expect(overGrpc.prefixDigests).toEqual(overHttp.prefixDigests);
  });

  test("CountTokens counts for the tenant of the key", async () => {
    const { messages } = generateRequest();
    const request = { ...CountTokensRequest.create(), model: "svc-qwen", messages, tenant: "somebody-else" };
    expect((await client.countTokens(request)).inputTokens).toBeGreaterThan(0);
  });

  test("the access log of a call has the fields of a request", async () => {
    await client.generate(generateRequest()).ended;
    await becomes(async () => lines().some(({ route }) => String(route).endsWith("/Generate")), "the line is there");
    expect(lines().findLast(({ route }) => String(route).endsWith("/Generate"))).toMatchObject({
      route: "/svc.inference.v1.InferenceService/Generate",
      format: "grpc",
      code: 200,
      grpc_status: "OK",
      end_reason: "complete",
      model: "svc-qwen",
      output_tokens: 7,
    });
  });
});

function lines(): readonly Readonly<Record<string, unknown>>[] {
  return service.gateway.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request");
}

describe("keys", () => {
  test.each([
    ["none", {}],
    ["a wrong one", { authorization: "Bearer sk-svc-unknown" }],
    ["what is no key", { "x-api-key": "\u{20}" }],
  ])("%s: UNAUTHENTICATED, before a message is read", async (_, headers) => {
    const caller = callerWith(headers);
    const ended = await refusalOf(generateRequest(), caller);
    expect(ended).toMatchObject({ code: 16, info: { reason: "API_KEY_INVALID" } });
    expect(ended.metadata.get("x-request-id")[0]).toMatch(/^req_/);
  });

  test("one in x-api-key serves as well", async () => {
    const caller = callerWith({ "x-api-key": service.gateway.key });
    expect(await refusalOf(generateRequest(), caller)).toMatchObject({ code: 0 });
  });

  test("a forbidden model gets the same error as a missing one", async () => {
    const key = await service.createKey("--name", "narrow", "--models", "svc-glm53");
    const caller = callerWith({ authorization: `Bearer ${key}` });
    const refused = await refusalOf(generateRequest(), caller);
    expect(refused).toMatchObject({ code: 5, info: { reason: "MODEL_NOT_SERVED" } });
    expect(await refusalOf(generateRequest({ model: "svc-nothing" }))).toMatchObject({ code: 5 });
  });

  test("a limit refuses with RetryInfo", async () => {
    const key = await service.createKey("--name", "slow", "--models", "all", "--rpm", "1");
    const caller = callerWith({ authorization: `Bearer ${key}` });
    await refusalOf(generateRequest(), caller);
    const refused = await refusalOf(generateRequest(), caller);
    expect(refused).toMatchObject({ code: 8, info: { reason: "RATE_LIMIT_EXCEEDED" } });
    const retry = detailOf(refused, "RetryInfo", (bytes) => RetryInfo.decode(bytes));
    expect(retry?.retryDelay?.seconds).toBeGreaterThan(0);
  });

  test("one that is ended takes its running answers with it", async () => {
    const open = holdAnswer();
    const key = await service.createKey("--name", "ended", "--models", "all");
    const caller = callerWith({ authorization: `Bearer ${key}` });
    const reading = caller.generate(generateRequest());
    await reading.seen("blockDelta");
    await keyCommand(service.gateway.keyFile, "revoke", service.gateway.keys.find(key)?.keyId ?? "", "--kill");
    expect(await reading.ended).toMatchObject({ code: 7, info: { reason: "CALLER_NOT_ALLOWED" } });
    open();
  });
});

describe("requests that are refused", () => {
  test.each<[what: string, fields: object, field: string, reason?: string]>([
    ["no model", { model: "" }, "model"],
    [
      "a continuation",
      { continuation: { modelRevision: "", tokens: [], callIds: [] } },
      "continuation",
      "UNSUPPORTED_FEATURE",
    ],
    [
      "a schema of a tool that is none",
      { tools: [{ ...toolOf("a", {}), parametersJsonSchema: "[" }] },
      "tools[0].parameters_json_schema",
      "INVALID_SCHEMA",
    ],
  ])("%s", async (_, fields, field, reason = "INVALID_REQUEST") => {
    const ended = await refusalOf(generateRequest(fields as Partial<GenerateRequest>));
    expect({ code: ended.code, reason: ended.info?.reason, field: fieldOf(ended) }).toEqual({ code: 3, reason, field });
  });

  test.each([
    ["G2 a message that is too large", () => generateRequest({}, "x".repeat(5_000_000)), 8, "MESSAGE_TOO_LARGE"],
    [
      "G1 one of too many pieces",
      () => {
        const parts = Array(250_000).fill({ kind: undefined, cacheBreakpoint: undefined });
        return generateRequest({ messages: [{ role: Role.USER, parts }] });
      },
      3,
      "INVALID_REQUEST",
    ],
  ] as const)("%s", async (_, request, code, reason) => {
    expect(await refusalOf(request())).toMatchObject({ code, info: { reason } });
  });

  test.each([
    ["DescribeNode", () => client.describe()],
    ["DrainNode", () => client.drain()],
  ])("G5 %s is for gateways", async (_, call) => {
    await expect(call()).rejects.toMatchObject({ code: 12 });
    await expect(client.watchPrefixes("svc-qwen").ended).resolves.toMatchObject({ code: 12 });
  });
});

describe("failures of engines", () => {
  test("the error of an oversized prompt has its size", async () => {
    service.play(function* () {
      yield [started()];
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "no", { input_tokens: "9", context_window: "8" });
    });
    expect(await refusalOf(generateRequest())).toMatchObject({
      code: 11,
      info: { reason: "CONTEXT_WINDOW_EXCEEDED", metadata: { input_tokens: "9", context_window: "8" } },
    });
  });

  test("G9 an answer lost midway ends with UNAVAILABLE, without its text", async () => {
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "a")];
      throw new EngineError("ENGINE_ERROR", "secret");
    });
    const reading = client.generate(generateRequest());
    const ended = await reading.ended;
    expect(ended).toMatchObject({ code: 14, info: { reason: "ENGINE_DOWN" } });
    expect(ended.details).not.toContain("secret");
    expect(reading.events.length).toBeGreaterThan(0);
  });
});

describe("callers that leave", () => {
  test("G6 by cancelling free the engine, and count as clients that closed", async () => {
    const open = holdAnswer();
    const before = lines().length;
    const reading = client.generate(generateRequest());
    await reading.seen("blockDelta");
    reading.call.cancel();
    await becomes(async () => service.engine.backend.load().busySlots === 0, "the engine is free");
    // The line of a request before may come late.
    const closed = () => lines().findLast(({ end_reason }, at) => at >= before && end_reason === "client_closed");
    await becomes(async () => closed() !== undefined, "the line says so");
    open();
  });

  test("G6 at their deadline end with DEADLINE_EXCEEDED, and free the engine", async () => {
    const open = holdAnswer();
    const reading = client.generate(generateRequest(), { deadline: Date.now() + 300 });
    expect(await reading.ended).toMatchObject({ code: 4 });
    await becomes(async () => service.engine.backend.load().busySlots === 0, "the engine is free");
    open();
  });

  test("G7 a slow reader holds its own engine, and loses nothing", async () => {
    const text = "x".repeat(16_384);
    let played = 0;
    service.play(async function* () {
      yield [started(), textStart(0)];
      for (played = 0; played < 400; played += 1) {
        yield [delta(0, text)];
        await new Promise((resolve) => setImmediate(resolve));
      }
      yield [blockEnd(0), finished()];
    });
    const slow = client.generate(generateRequest());
    await slow.seen("blockDelta");
    slow.call.pause();
    let before = -1;
    await becomes(async () => {
      const still = played === before && played < 400;
      before = played;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return still;
    }, "the engine stands still");
    slow.call.resume();
    expect(await slow.ended).toMatchObject({ code: 0 });
    const bytes = slow.events.reduce(
      (sum, { kind }) => sum + (kind?.$case === "blockDelta" ? kind.value.text.length : 0),
      0,
    );
    expect(bytes).toBe(400 * text.length);
  });
});

test("a large message is decoded beside others", async () => {
  const reading = client.generate(generateRequest({}, "y".repeat(600_000)));
  expect(await reading.ended).toMatchObject({ code: 0 });
  const [part] = service.lastRequest().messages[0]?.parts ?? [];
  expect(part?.kind?.$case === "text" ? part.kind.value.text.length : 0).toBe(600_000);
});

test("a request that thinks keeps some of its answer to be seen", async () => {
  service.play(() => [textAnswer("ok")]);
  const reasoning = { mode: ReasoningMode.ENABLED, effort: 0 as const, budgetTokens: 500 };
  await client.generate(generateRequest({ maxOutputTokens: 100, reasoning })).ended;
  expect(service.lastRequest()).toMatchObject({ maxOutputTokens: 100, reasoning: { budgetTokens: 99 } });
});
