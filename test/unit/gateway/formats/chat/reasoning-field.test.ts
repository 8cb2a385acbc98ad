import { expect, test } from "vitest";
import { chat } from "../../../../../gateway/formats/chat/request.ts";
import { CompletionFold } from "../../../../../gateway/formats/completion.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { CONTEXT, HEAD } from "../../../../support/events/encoding-context.ts";
import { FORMAT_SETTINGS } from "../../../../support/events/format-settings.ts";
import { blockDelta, blockEnded, blockStarted, dataLines, finished, started } from "./transcript.ts";

const events = [
  started,
  blockStarted(0, "reasoning"),
  blockDelta(0, "I need "),
  blockDelta(0, 'the "file".'),
  blockEnded(0),
  finished(FinishReason.STOP),
];

test.each([
  ["reasoning_content", ["reasoning_content"]],
  ["reasoning", ["reasoning"]],
  ["both", ["reasoning_content", "reasoning"]],
] as const)("reasoning is shown as %s, streamed and folded", (reasoningField, fields) => {
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };
  const { options } = chat.prepare(body, { ...CONTEXT, settings: { ...FORMAT_SETTINGS, reasoningField } });
  const encoder = chat.encoder(HEAD, options);
  const lines = dataLines(events.map((event) => encoder.next(event)).join(""));
  const deltas = lines
    .filter((line) => line !== "[DONE]")
    .map((line) => JSON.parse(line).choices[0].delta)
    .filter((delta) => Object.keys(delta).some((key) => key.startsWith("reasoning")));
  const shown = (text: string) => Object.fromEntries(fields.map((field) => [field, text]));
  expect(deltas).toEqual([shown("I need "), shown('the "file".')]);

  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  const { choices } = chat.reply(HEAD, fold.result(), options) as { choices: { message: object }[] };
  expect(choices[0]?.message).toEqual({
    role: "assistant",
    content: "",
    refusal: null,
    ...shown('I need the "file".'),
  });
});
