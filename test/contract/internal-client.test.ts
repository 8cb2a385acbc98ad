import { join } from "node:path";
import { credentials, type GrpcObject, loadPackageDefinition, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EngineError } from "../../engine/errors.ts";
import { type RunningEngine, startEngine } from "../support/engine/start-engine.ts";
import { textAnswer } from "../support/events/events.ts";

/* An internal client with only the .proto files: it sees only the contract. */

const PROTO = join(import.meta.dirname, "../../proto");

function load(...files: readonly string[]): GrpcObject {
  const options = { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: [PROTO] };
  return loadPackageDefinition(loadSync([...files], options));
}

function service(root: GrpcObject, path: string): ServiceClientConstructor {
  const found = path.split(".").reduce<unknown>((node, name) => (node as Record<string, unknown>)[name], root);
  return found as ServiceClientConstructor;
}

const contract = load("svc/inference/v1/inference_service.proto", "svc/inference/v1/node_service.proto");

let engine: RunningEngine;
beforeAll(async () => {
  engine = await startEngine((request) => {
    if (request.requestId === "too_long")
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long", { input_tokens: "9", context_window: "8" });
    return [textAnswer("Hello", " there")];
  });
});
afterAll(() => engine.stop());

type Call = (method: string, request: object) => Promise<Record<string, unknown>>;

function unary(path: string): Call {
  const client = new (service(contract, path))(engine.address, credentials.createInsecure());
  return (method, request) =>
    new Promise((resolve, reject) => {
      client[method]?.(request, (error: Error | null, reply: Record<string, unknown>) => {
        client.close();
        if (error) reject(error);
        else resolve(reply);
      });
    });
}

/** All events of one generation, in order. */
function generate(request: object): Promise<Record<string, unknown>[]> {
  const Client = service(contract, "svc.inference.v1.InferenceService");
  const client = new Client(engine.address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    const events: Record<string, unknown>[] = [];
    const call = client.Generate?.(request) as unknown as NodeJS.EventEmitter;
    call.on("data", (message: { events: Record<string, unknown>[] }) => events.push(...message.events));
    call.on("error", reject);
    call.on("end", () => resolve(events));
    call.on("status", () => client.close());
  });
}

const conversation = [{ role: "ROLE_USER", parts: [{ text: { text: "hi" } }] }];

test("Generate streams started, blocks and finished", async () => {
  const events = await generate({ request_id: "r1", model: "svc-qwen", messages: conversation });
  expect(events.map((event) => event.kind)).toEqual([
    "started",
    "block_started",
    "block_delta",
    "block_delta",
    "block_ended",
    "finished",
  ]);
  expect(events.at(-1)).toMatchObject({ finished: { reason: "FINISH_REASON_STOP", usage: { output_tokens: 7 } } });
  expect(engine.backend.requests.at(-1)?.messages[0]?.parts[0]?.kind).toEqual({ $case: "text", value: { text: "hi" } });
});

test("CountTokens counts without a slot", async () => {
  const reply = await unary("svc.inference.v1.InferenceService")("CountTokens", {
    model: "svc-qwen",
    messages: conversation,
  });
  expect(reply.input_tokens).toBeGreaterThan(0);
});

test("DescribeNode describes the models, and the scripted backend", async () => {
  const reply = await unary("svc.inference.v1.NodeService")("DescribeNode", {});
  expect(reply).toMatchObject({ node_id: "scripted", engine_kind: "ENGINE_KIND_SCRIPTED" });
  expect((reply.models as { id: string; state: string }[]).map(({ id, state }) => `${id} ${state}`)).toContain(
    "svc-qwen MODEL_STATE_READY",
  );
});

test("a failure is a status with google.rpc.ErrorInfo", async () => {
  const failure = (await generate({ request_id: "too_long", model: "svc-qwen", messages: conversation }).catch(
    (error: unknown) => error,
  )) as { code: number; metadata: { get(key: string): Buffer[] } };
  expect(failure.code).toBe(11);
  const packed = failure.metadata.get("grpc-status-details-bin")[0]?.toString("latin1") ?? "";
  expect(packed).toContain("type.googleapis.com/google.rpc.ErrorInfo");
  expect(packed).toContain("CONTEXT_WINDOW_EXCEEDED");
  const unknown = await generate({ request_id: "r2", model: "svc-nothing", messages: conversation }).catch(
    (error: unknown) => error,
  );
  expect(unknown).toMatchObject({ code: 5 });
});

test("health has one name per model, and draining changes them all", async () => {
  const folder = join(import.meta.dirname, "../../node_modules/grpc-health-check/proto");
  const root = loadPackageDefinition(loadSync("health/v1/health.proto", { enums: String, includeDirs: [folder] }));
  const Client = service(root, "grpc.health.v1.Health");
  const check = (name: string): Promise<{ status: string }> =>
    new Promise((resolve, reject) => {
      const client = new Client(engine.address, credentials.createInsecure());
      client.Check?.({ service: name }, (error: Error | null, reply: { status: string }) => {
        client.close();
        if (error) reject(error);
        else resolve(reply);
      });
    });
  for (const name of ["", "svc.inference.v1.InferenceService", "svc.model/svc-qwen", "svc.model/svc-glm53"])
    expect((await check(name)).status).toBe("SERVING");
  await expect(check("svc.model/other")).rejects.toMatchObject({ code: 5 });
  const drained = await unary("svc.inference.v1.NodeService")("DrainNode", {});
  expect(drained.running_requests).toBe(0);
  expect((await check("svc.model/svc-qwen")).status).toBe("NOT_SERVING");
  await expect(generate({ request_id: "r3", model: "svc-qwen", messages: conversation })).rejects.toMatchObject({
    code: 14,
  });
});
