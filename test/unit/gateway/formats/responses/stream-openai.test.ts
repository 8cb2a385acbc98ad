import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { answer, call, cut, reasoning, text } from "./engine-events.ts";
import { head, prepare } from "./prepared-request.ts";
import { fieldOf, sseEvents } from "./sse-events.ts";

/** The stream of our encoder, read by the SDK's own helper. */
function helperOn(body: string) {
  const client = new OpenAI({
    apiKey: "k",
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: async () => new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } }),
  });
  return client.responses.stream({ model: "svc-qwen", input: "hi" });
}

function streamOf(events: readonly Event[], extra: object): string {
  const encoder = prepare({ stream: true, ...extra }).encoder(head);
  return events.map((event) => encoder.keepAlive() + encoder.next(event)).join("");
}

const full = answer([
  reasoning("think", "ing"),
  text("Hel", "lo"),
  call("c1", "read", '{"p":', '"a"}'),
  call("c2", "now"),
]);

describe.each([
  ["hidden reasoning", {}],
  ["a summary", { reasoning: { summary: "auto" } }],
  ["plain reasoning, sealed too", { include: ["reasoning.encrypted_content"] }],
  ["logprobs", { top_logprobs: 2 }],
])("with %s", (_, extra) => {
  test("the helper gets the output of our final object", async () => {
    const body = streamOf(full, extra);
    const helper = helperOn(body);
    const deltas: string[] = [];
    helper.on("response.output_text.delta", ({ delta, snapshot }) => deltas.push(delta, snapshot));
    const final = await helper.finalResponse();
    const ours = fieldOf(sseEvents(body).at(-1), "response");
    // The helper adds its parsed fields to each item; all of ours must be in it.
    expect(final.output).toMatchObject(ours.output as object[]);
    expect(final.status).toBe("completed");
    expect(final.output_text).toBe("Hello");
    expect(final.usage).toEqual(ours.usage);
    expect(deltas).toEqual(["Hel", "Hel", "lo", "Hello"]);
  });
});

test("the helper sees a truncated answer as incomplete", async () => {
  const events = answer([cut(text("Hel"))], FinishReason.MAX_OUTPUT_TOKENS);
  const final = await helperOn(streamOf(events, {})).finalResponse();
  expect([final.status, final.incomplete_details]).toEqual(["incomplete", { reason: "max_output_tokens" }]);
});

test("the helper sees a lost engine as a failed response", async () => {
  const encoder = prepare({ stream: true }).encoder(head);
  const sent = full.slice(0, 6).map((event) => encoder.next(event));
  const body = sent.join("") + encoder.fail(new ApiError("engine_unavailable", "The engine stopped."));
  const final = await helperOn(body).finalResponse();
  expect([final.status, final.error]).toEqual(["failed", { code: "server_error", message: "The engine stopped." }]);
});
