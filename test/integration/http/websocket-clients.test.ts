import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { expect, onTestFinished, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, textAnswer, toolCallStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { FrameClient } from "../../support/http/frame-client.ts";

/* What clients of responses over WebSocket were recorded to send, and an official SDK. */

const FOLDER = join(import.meta.dirname, "../../agent-sockets");
const MODEL = "svc-glm53";
const service = serviceOfFile();

type Json = { [key: string]: unknown };
type Step = { readonly client?: string; readonly headers?: Record<string, string>; readonly body?: Json };

/** Headers that a client of the handshake makes itself. */
const OF_THE_HANDSHAKE = /^(?:host|connection|upgrade|authorization|sec-.*)$/;

/** Takes out what the recordings have in place of cut lists. */
function whole(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(whole).filter((item) => Object.keys(item ?? {}).join() !== "placeholder");
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, whole(member)]));
}

const outputsOf = (step: Step | undefined) =>
  ((step?.body?.input ?? []) as Json[]).filter?.(({ type }) => String(type).endsWith("_output")) ?? [];

test.each(readdirSync(FOLDER).filter((file) => file !== "codex-426-then-http.json"))("%s", async (file) => {
  const { exchange } = JSON.parse(readFileSync(join(FOLDER, file), "utf8")) as { readonly exchange: Step[] };
  let client: FrameClient | undefined;
  let last: { readonly id: string; readonly output: readonly Json[] } | undefined;
  const frames = exchange.filter(({ client: did }) => did === "text frame");
  for (const step of exchange) {
    if (step.client === "upgrade") {
      const headers = Object.entries(step.headers ?? {}).filter(([name]) => !OF_THE_HANDSHAKE.test(name));
      client?.ws.terminate();
      client = await FrameClient.open(service.gateway, Object.fromEntries(headers));
    }
    if (step.client !== "text frame" || !client || !step.body) continue;
    // The answer calls a tool for each output that the next frame brings.
    const calls = outputsOf(frames[frames.indexOf(step) + 1]).length;
    const call = (at: number) => [toolCallStart(at, "exec_command"), delta(at, "{}"), blockEnd(at)];
    const called = Array.from({ length: calls }, (_, at) => call(at)).flat();
    service.play(({ maxOutputTokens }) => {
      if (maxOutputTokens === 0) return [[started(), finished()]];
      return [calls > 0 ? [started(), ...called, finished(FinishReason.TOOL_CALLS)] : textAnswer("Done.")];
    });
    const frame: Json = { ...(whole(step.body) as Json), model: MODEL };
    if (frame.previous_response_id !== undefined) frame.previous_response_id = last?.id;
    const ids = (last?.output ?? []).flatMap(({ call_id }) => (call_id === undefined ? [] : [call_id]));
    for (const [at, output] of outputsOf({ body: frame })
      .slice(-ids.length || undefined)
      .entries())
      if (frame.previous_response_id !== undefined) output.call_id = ids[at];
    client.send(frame);
    const events = await client.answer(frame.stream_id as string | undefined);
    const end = events.at(-1);
    expect([end?.type, end?.error]).toEqual(["response.completed", undefined]);
    last = end?.response as typeof last;
    const expected = frame.generate === false ? 0 : Math.max(1, calls);
    expect(last?.output).toHaveLength(expected);
  }
  client?.ws.terminate();
});

test("the vendor's client continues by its own types", async () => {
  const openai = new OpenAI({ apiKey: service.gateway.key, baseURL: `${service.gateway.baseUrl}/v1` });
  const socket = new ResponsesWS(openai);
  onTestFinished(() => socket.close());
  const answer = () =>
    new Promise<{ readonly id: string; readonly output_text?: string }>((resolve, reject) => {
      socket.once("error", reject);
      socket.once("response.completed", ({ response }) => resolve(response));
    });
  await new Promise((resolve) => socket.socket.once("open", resolve));
  const first = answer();
  socket.send({ type: "response.create", model: MODEL, input: "Hi.", store: false });
  const { id } = await first;
  const second = answer();
  socket.send({ type: "response.create", model: MODEL, input: "Go on.", store: false, previous_response_id: id });
  expect((await second).output_text).toBe("Hello.");
  expect(service.lastRequest().messages).toHaveLength(3);
  const failed = new Promise<Error>((resolve) => socket.once("error", resolve));
  socket.send({ type: "response.create", model: MODEL, input: "Go on.", previous_response_id: "resp_never" });
  expect(String((await failed).message)).toContain("Previous response not found");
});
