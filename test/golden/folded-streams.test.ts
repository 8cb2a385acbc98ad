import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asWritten } from "../../deploy/runtime/contract/broken-arguments.ts";
import { framesOf, isObjectText } from "../support/checkers/stream-text.ts";
import { TRANSCRIPTS } from "../support/events/transcripts.ts";
import { valueAt } from "../support/http/value-at.ts";

/* The golden streams, put together as clients do, are the golden replies. */

const file = (scenario: string, name: string) =>
  readFileSync(join(import.meta.dirname, "transcripts", scenario, name), "utf8");
const framesIn = (scenario: string, format: string) =>
  framesOf(file(scenario, `${format}.sse`)).map(({ data }) => data);
const replyIn = (scenario: string, format: string): unknown => JSON.parse(file(scenario, `${format}.json`));

/** The values at a path of all frames that have one. */
const valuesAt = (frames: readonly unknown[], ...path: (string | number)[]) =>
  frames.map((frame) => valueAt(frame, ...path)).filter((value) => value !== undefined && value !== null);

test.each(TRANSCRIPTS)("chat: the chunks of %s", (scenario) => {
  const frames = framesIn(scenario, "chat");
  const delta = ["choices", 0, "delta"] as const;
  const fragments = valuesAt(frames, ...delta, "tool_calls", 0);
  const calls = fragments.filter((fragment) => valueAt(fragment, "id") !== undefined);
  const argumentsOf = (call: unknown) =>
    fragments
      .filter((fragment) => valueAt(fragment, "index") === valueAt(call, "index"))
      .map((fragment) => valueAt(fragment, "function", "arguments"))
      .join("");
  const message = {
    content: valuesAt(frames, ...delta, "content").join(""),
    reasoning: valuesAt(frames, ...delta, "reasoning_content").join(""),
    calls: calls.map((call) => [valueAt(call, "id"), valueAt(call, "function", "name"), argumentsOf(call)]),
    reasons: valuesAt(frames, "choices", 0, "finish_reason"),
    usage: valuesAt(frames, "usage"),
  };
  const reply = replyIn(scenario, "chat");
  const whole = (...path: string[]) => valueAt(reply, "choices", 0, "message", ...path);
  const wholeCalls = whole("tool_calls") ?? [];
  expect(message).toEqual({
    content: whole("content") ?? "",
    reasoning: whole("reasoning_content") ?? "",
    calls: (Array.isArray(wholeCalls) ? wholeCalls : []).map((call: unknown) => [
      valueAt(call, "id"),
      valueAt(call, "function", "name"),
      valueAt(call, "function", "arguments"),
    ]),
    reasons: [valueAt(reply, "choices", 0, "finish_reason")],
    usage: [valueAt(reply, "usage")],
  });
});

/** The exception: `input` has to be an object, so that a call that is cut or broken is text in a reply. */
function asInReply(block: unknown, input: string): unknown {
  if (valueAt(block, "type") !== "tool_use") return block;
  if (input === "" || isObjectText(input)) return { ...Object(block), input: JSON.parse(input || "{}") };
  return { type: "text", text: `${valueAt(block, "name")} ${asWritten(input)}`.trimEnd() };
}

test.each(TRANSCRIPTS)("messages: the events of %s, but for calls that are not whole", (scenario) => {
  const frames = framesIn(scenario, "messages");
  const blocks = frames.filter((frame) => valueAt(frame, "type") === "content_block_start");
  const joined = (index: number, key: string) =>
    valuesAt(
      frames.filter((frame) => valueAt(frame, "index") === index),
      "delta",
      key,
    ).join("");
  const content = blocks.map((start, index) => {
    const block = valueAt(start, "content_block");
    const texts = ["text", "thinking", "signature"].filter((key) => valueAt(block, key) !== undefined);
    const filled = { ...Object(block), ...Object.fromEntries(texts.map((key) => [key, joined(index, key)])) };
    return asInReply(filled, joined(index, "partial_json"));
  });
  const [stop] = valuesAt(frames, "delta", "stop_reason");
  const calls = content.some((block) => valueAt(block, "type") === "tool_use");
  const reply = replyIn(scenario, "messages");
  expect({ content, stop: stop === "tool_use" && !calls ? "end_turn" : stop }).toEqual({
    content: valueAt(reply, "content"),
    stop: valueAt(reply, "stop_reason"),
  });
});

test.each(TRANSCRIPTS)("responses: the last event of %s", (scenario) => {
  const last = framesIn(scenario, "responses").at(-1);
  expect(valueAt(last, "response")).toEqual(replyIn(scenario, "responses"));
});
