import OpenAI, { APIError } from "openai";
import { describe, expect, test } from "vitest";
import { engineLost } from "../../../../../gateway/errors.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { head, minimal, prepareChat } from "./prepare-chat.ts";
import { type Block, blockDelta, blockStarted, started, streamOf, transcript, usage } from "./transcript.ts";

/** The official SDK, with `sse` as the answer of the service. */
function clientOf(sse: string): OpenAI {
  const headers = { "content-type": "text/event-stream; charset=utf-8" };
  return new OpenAI({
    apiKey: "test",
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: () => Promise.resolve(new Response(sse, { headers })),
  });
}

const request = {
  model: minimal.model,
  messages: [{ role: "user" as const, content: "hi" }],
  stream: true as const,
  stream_options: { include_usage: true },
};

describe("the official SDK", () => {
  test("folds the stream into the answer", async () => {
    const blocks: Block[] = [
      { kind: "reasoning", deltas: ["hm"] },
      { kind: "text", deltas: ["Hel", "lo 😀"] },
      { kind: { callId: "call_0", name: "read" }, deltas: ['{"path":', '"a.ts"}'] },
      { kind: { callId: "call_1", name: "list" }, deltas: [] },
    ];
    const sse = streamOf(prepareChat(request), head, transcript(blocks, FinishReason.TOOL_CALLS));
    const completion = await clientOf(`: keep-alive\n\n${sse}`).chat.completions.stream(request).finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: "Hello 😀",
        tool_calls: [
          { id: "call_0", type: "function", function: { name: "read", arguments: '{"path":"a.ts"}' } },
          { id: "call_1", type: "function", function: { name: "list", arguments: "{}" } },
        ],
      },
    });
    expect(completion.usage).toMatchObject({ prompt_tokens: usage.inputTokens, completion_tokens: usage.outputTokens });
  });

  test("throws when the engine is lost in the middle of the stream", async () => {
    const encoder = prepareChat(request).encoder(head);
    const sse =
      [started, blockStarted(0, "text"), blockDelta(0, "half")].map((event) => encoder.next(event)).join("") +
      encoder.fail(engineLost("upstream_reset"));
    const read = async () => {
      const pieces: string[] = [];
      for await (const chunk of await clientOf(sse).chat.completions.create(request))
        pieces.push(chunk.choices[0]?.delta.content ?? "");
      return pieces;
    };
    await expect(read()).rejects.toBeInstanceOf(APIError);
    await expect(read()).rejects.toMatchObject({ code: "server_error", type: "server_error" });
  });
});
