import { describe, expect, test } from "vitest";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { TRANSCRIPTS, transcript } from "../../support/events/transcripts.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { OPENAI, openaiOf } from "./clients.ts";

const service = serviceOfFile();

const request = { model: "svc-qwen", input: "hi", reasoning: { summary: "auto" as const } };

/** Ids are new in every reply. */
function withoutIds(output: readonly object[]): object[] {
  return output.map((item) => ({ ...item, id: expect.any(String) }));
}

describe.each(OPENAI)("%s", (name, Sdk) => {
  // The helper of version 5 takes the final object from `response.completed` only; at any other end its snapshot stays
  // unfinished.
  const takesEveryEnd = name !== "openai 5";
  const client = () => openaiOf(service, Sdk);

  test.each(TRANSCRIPTS)("case 130a: its stream helper folds %s to the folded reply", async (name) => {
    service.play(transcript(name));
    const folded = await client().responses.create(request);
    const final = await client().responses.stream(request).finalResponse();
    expect(final.output).toHaveLength(folded.output.length);
    if (folded.status === "completed" || takesEveryEnd) {
      expect(final.output).toMatchObject(withoutIds(folded.output));
      expect(final.output_text).toBe(folded.output_text);
      expect(final.usage).toEqual(folded.usage);
    }
  });

  test("the Responses SDK counts the input tokens of a request", async () => {
    const { model, input } = request;
    // The older major version has no method for it.
    const count = () => client().post("/responses/input_tokens", { body: { model, input } });
    const counted = await (takesEveryEnd ? client().responses.inputTokens.count({ model, input }) : count());
    expect(counted).toEqual({ object: "response.input_tokens", input_tokens: expect.any(Number) });
  });

  test("a client sees the failure when the engine is lost in mid-stream", async () => {
    service.play(lostMidway);
    const events = [];
    for await (const event of await client().responses.create({ ...request, stream: true })) events.push(event);
    expect(events.at(-1)).toMatchObject({ type: "response.failed", response: { error: { code: "server_error" } } });
  });
});
