import { describe, expect, test } from "vitest";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { TRANSCRIPTS, transcript } from "../../support/events/transcripts.ts";
import { ERROR_FRAMES, serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { OPENAI, openaiOf } from "./clients.ts";

const service = serviceOfFile({ gateway: { formats: ERROR_FRAMES } });

const request = {
  model: "svc-qwen",
  messages: [{ role: "user" as const, content: "hi" }],
  stream_options: { include_usage: true },
};

describe.each(OPENAI)("%s", (_, Sdk) => {
  const client = () => openaiOf(service, Sdk);

  test.each(TRANSCRIPTS)("case 73a: its stream helper folds %s to the folded reply", async (name) => {
    service.play(transcript(name));
    const { messages, model } = request;
    const folded = await client().chat.completions.create({ model, messages });
    const streamed = await client().chat.completions.stream(request).finalChatCompletion();
    const [expected, got] = [folded.choices[0], streamed.choices[0]];
    // Of an unknown field, the helper keeps the last fragment only; it may turn empty text into null.
    const { reasoning_content: _reasoning, ...message } = { reasoning_content: "", ...expected?.message };
    const whole = { ...got?.message, content: got?.message.content || null };
    expect(whole).toMatchObject({ ...message, content: message.content || null });
    expect(got?.finish_reason).toBe(expected?.finish_reason);
    expect(streamed.usage).toEqual(folded.usage);
    expect(streamed.model).toBe("svc-qwen");
  });

  test("a client throws when the engine is lost in mid-stream", async () => {
    service.play(lostMidway);
    const thrown = await client()
      .chat.completions.stream(request)
      .finalChatCompletion()
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Sdk.APIError);
    expect(thrown).toMatchObject({
      code: "server_error",
      type: "server_error",
      requestID: expect.stringMatching(/^req_/),
    });
  });

  test("a client lists and gets models", async () => {
    const ids: string[] = [];
    for await (const model of client().models.list()) ids.push(model.id);
    expect(ids).toContain("svc-qwen");
    expect(await client().models.retrieve("svc-qwen")).toMatchObject({ id: "svc-qwen", owned_by: "svc" });
  });
});
