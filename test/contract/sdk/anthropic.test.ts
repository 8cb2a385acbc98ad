import { describe, expect, test } from "vitest";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { TRANSCRIPTS_OF_WHOLE_CALLS, transcript } from "../../support/events/transcripts.ts";
import { ERROR_FRAMES, serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { ANTHROPIC, anthropicOf } from "./clients.ts";

const service = serviceOfFile({ gateway: { formats: ERROR_FRAMES } });

const request = { model: "svc-qwen", max_tokens: 64, messages: [{ role: "user" as const, content: "hi" }] };

describe.each(ANTHROPIC)("%s", (_, Sdk) => {
  const client = () => anthropicOf(service, Sdk);

  test.each(TRANSCRIPTS_OF_WHOLE_CALLS)("case 103a: its stream helper folds %s to the folded reply", async (name) => {
    service.play(transcript(name));
    const folded = await client().messages.create(request);
    const streamed = await client().messages.stream(request).finalMessage();
    expect(streamed.content).toMatchObject(folded.content);
    expect(streamed.content).toHaveLength(folded.content.length);
    expect([streamed.stop_reason, streamed.stop_sequence]).toEqual([folded.stop_reason, folded.stop_sequence]);
    expect(folded.usage).toMatchObject(streamed.usage);
  });

  test("a client throws when the engine is lost in mid-stream", async () => {
    service.play(lostMidway);
    const thrown = await client()
      .messages.stream(request)
      .finalMessage()
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Sdk.APIError);
    expect(thrown).toMatchObject({ requestID: expect.stringMatching(/^req_/) });
  });

  test("a client counts tokens and lists models", async () => {
    const { model, messages } = request;
    expect((await client().messages.countTokens({ model, messages })).input_tokens).toBeGreaterThan(0);
    const ids: string[] = [];
    for await (const listed of client().models.list()) ids.push(listed.id);
    expect(ids).toContain("svc-qwen");
  });
});
