import { describe, expect, test } from "vitest";
import { readChunk } from "../../../../../../engine/backends/openai-compatible/answer/chunk.ts";
import { FinishReason } from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { callChunk, chunk, readAnswer, readerOf, stop } from "./engine-answer.ts";

const text = (content: string, complete = true) => ({ kind: "text", text: content, complete, logprobs: [] });
const reasoning = (content: string, complete = true) => ({ kind: "reasoning", text: content, complete, logprobs: [] });
const call = (id: string, name: string, args: string, complete = true) => ({
  kind: "call",
  id,
  name,
  text: args,
  complete,
  logprobs: [],
});
const finish = (reason: string) => chunk({}, { finish_reason: reason });

describe("text and reasoning", () => {
  test.each([
    ["reasoning", { reasoning: "hm" }],
    ["reasoning_content", { reasoning_content: "hm", content: null, tool_calls: null }],
    ["both, with one text", { reasoning: "hm", reasoning_content: "hm" }],
  ])("reasoning is read from %s", (_name, delta) => {
    expect(readAnswer([chunk(delta), chunk({ content: "yes" }), stop]).blocks).toEqual([reasoning("hm"), text("yes")]);
  });

  test("a first chunk with only a role opens no block", () => {
    const answer = readAnswer([chunk({ role: "assistant", content: "" }), chunk({ content: "a" }), stop]);
    expect(answer.blocks).toEqual([text("a")]);
  });

  test("the chunk with the finish reason may hold the last text", () => {
    expect(readAnswer([chunk({ content: "a" }), chunk({ content: "b" }, { finish_reason: "stop" })]).blocks).toEqual([
      text("ab"),
    ]);
  });

  test("reasoning that the engine left in the text is separated", () => {
    const pieces = ["<thi", "nk>\nhm\n</th", "ink>\n\nyes"].map((content) => chunk({ content }));
    expect(readAnswer([...pieces, stop]).blocks).toEqual([reasoning("hm"), text("yes")]);
  });

  test.each([
    ["in pieces of their own", ["\n", "hm", "\n"], ["\n\n", "yes"]],
    ["beside the words", ["\nhm\n"], ["\n\nyes"]],
    ["character by character", [..."\nhm\n"], [..."\n\nyes"]],
  ])("the template's white space beside the markers is removed from separated text: %s", (_how, thought, said) => {
    const chunks = [
      ...thought.map((piece) => chunk({ reasoning: piece })),
      ...said.map((content) => chunk({ content })),
    ];
    expect(readAnswer([...chunks, stop]).blocks).toEqual([reasoning("hm"), text("yes")]);
    expect(readAnswer([...chunks, stop], { hideReasoning: true }).blocks).toEqual([text("yes")]);
  });

  test("white space beyond the template's is kept if the engine separates reasoning", () => {
    const chunks = [chunk({ reasoning: "\n\nh\n\nm\n\n" }), chunk({ content: "\n\n\n  yes\n" }), stop];
    expect(readAnswer(chunks).blocks).toEqual([reasoning("\nh\n\nm\n"), text("\n  yes\n")]);
    expect(readAnswer([chunk({ content: "\n\nyes" }), stop]).blocks).toEqual([text("\n\nyes")]);
    const cut = [chunk({ reasoning: "hm\n" }), finish("length")];
    expect(readAnswer(cut).blocks).toEqual([reasoning("hm\n", false)]);
  });

  test("log probabilities of the white space after the reasoning are dropped with it", () => {
    const told = (token: string) => ({
      logprobs: { content: [{ token, bytes: [...Buffer.from(token)], logprob: -1 }] },
    });
    const chunks = [
      chunk({ reasoning: "hm" }),
      chunk({ content: "\n\n" }, told("\n\n")),
      chunk({ content: "y" }, told("y")),
    ];
    const [, answer] = readAnswer([...chunks, stop]).blocks;
    expect(answer?.logprobs).toEqual(["y"]);
  });

  test("a marker in the text is text if the engine separates reasoning", () => {
    const chunks = [chunk({ reasoning: "hm" }), chunk({ content: "<think>x</think>" }), stop];
    expect(readAnswer(chunks).blocks).toEqual([reasoning("hm"), text("<think>x</think>")]);
  });

  test("hidden reasoning is dropped, and output after it is kept", () => {
    const apart = [chunk({ reasoning: "hm" }), chunk({ content: "yes" }), stop];
    const inText = [chunk({ content: "<think>hm</think>yes" }), stop];
    for (const chunks of [apart, inText]) {
      expect(readAnswer(chunks, { hideReasoning: true }).blocks).toEqual([text("yes")]);
    }
  });

  test("truncated text and reasoning end incomplete", () => {
    expect(readAnswer([chunk({ content: "a" }), finish("length")]).blocks).toEqual([text("a", false)]);
    expect(readAnswer([chunk({ reasoning: "a" }), finish("length")]).blocks).toEqual([reasoning("a", false)]);
  });

  test("an answer of white space is kept; white space before a call is dropped", () => {
    expect(readAnswer([chunk({ content: "\n\n" }), stop]).blocks).toEqual([text("\n\n")]);
    const beforeCall = [chunk({ content: "\n" }), callChunk(0, { id: "a", name: "run", args: "{}" }), stop];
    expect(readAnswer(beforeCall).blocks).toEqual([call("a", "run", "{}")]);
  });

  test("log probabilities are sent with their text", () => {
    const logprobs = {
      content: [{ token: "a", bytes: [97], logprob: -0.5, top_logprobs: [{ token: "b", logprob: -1 }] }],
    };
    const reader = readerOf();
    const [, delta] = reader.read(readChunk(JSON.stringify(chunk({ content: "a" }, { logprobs }))));
    expect(delta?.kind).toMatchObject({
      $case: "blockDelta",
      value: {
        text: "a",
        logprobs: [
          {
            token: "a",
            tokenBytes: Buffer.from("a"),
            logprob: -0.5,
            alternatives: [{ token: "b", tokenBytes: Buffer.from("b"), logprob: -1 }],
          },
        ],
      },
    });
  });
});

describe("tool calls", () => {
  test("only the first id and name count", () => {
    const chunks = [
      callChunk(0, { id: "a", name: "run", args: null }),
      callChunk(0, { id: "b", name: "search", args: "" }),
      callChunk(0, { id: "a", name: "run", args: '{"x"' }),
      callChunk(0, { id: "b", name: "other", args: ":1}" }, { finish_reason: "tool_calls" }),
    ];
    const { blocks, reason } = readAnswer(chunks);
    expect(blocks).toEqual([call("a", "run", '{"x":1}')]);
    expect(reason).toBe(FinishReason.TOOL_CALLS);
  });

  test("fragments of a later call wait until the previous one is complete", () => {
    const chunks = [
      callChunk(0, { id: "a", name: "run", args: '{"x"' }),
      callChunk(1, { id: "b", name: "search", args: '{"y"' }),
      callChunk(0, { args: ":1}" }),
      callChunk(1, { args: ":2}" }),
      stop,
    ];
    expect(readAnswer(chunks).blocks).toEqual([call("a", "run", '{"x":1}'), call("b", "search", '{"y":2}')]);
  });

  test("arguments that arrive before the name wait for it", () => {
    const chunks = [callChunk(0, { id: "a", args: '{"x":' }), callChunk(0, { name: "run", args: "1}" }), stop];
    expect(readAnswer(chunks).blocks).toEqual([call("a", "run", '{"x":1}')]);
  });

  test("a call without arguments gets an empty object if the model has finished", () => {
    expect(readAnswer([callChunk(0, { id: "a", name: "run", args: "" }), stop]).blocks).toEqual([
      call("a", "run", "{}"),
    ]);
  });

  test.each([
    ["stops in the middle", '{"x": [1'],
    ["writes junk inside", "{x: 1}"],
    ["writes more than one object", '{}{"x":1}'],
  ])("a call whose model %s is incomplete, and does not count", (_what, args) => {
    const chunks = [
      callChunk(0, { id: "a", name: "run", args: "" }),
      callChunk(0, { args }),
      chunk({ content: "so" }),
      stop,
    ];
    const { blocks, reason } = readAnswer(chunks);
    expect(blocks).toMatchObject([{ kind: "call", complete: false }, text("so")]);
    expect(reason).toBe(FinishReason.STOP);
  });

  test("a call without even the beginning of an object is returned as text", () => {
    const chunks = [callChunk(0, { id: "a", name: "run", args: " [1" }), callChunk(0, { args: "]" }), stop];
    expect(readAnswer(chunks).blocks).toEqual([text('{"name": "run", "arguments":  [1]}')]);
  });

  test("a call that was truncated before its arguments is dropped", () => {
    const chunks = [chunk({ content: "I" }), callChunk(0, { id: "a", name: "run", args: "" }), finish("length")];
    const { blocks, reason } = readAnswer(chunks);
    expect(blocks.map(({ kind }) => kind)).toEqual(["text"]);
    expect(reason).toBe(FinishReason.MAX_OUTPUT_TOKENS);
  });

  test("the sent part of a malformed call can still become JSON", () => {
    const [block] = readAnswer([
      callChunk(0, { id: "a", name: "run", args: '{"x": 1, oops' }),
      callChunk(0, { args: '"y": 2}' }),
      stop,
    ]).blocks;
    expect(block).toEqual(call("a", "run", '{"x": 1, ', false));
  });

  test("a call of a forbidden tool is returned as text", () => {
    const chunks = [callChunk(0, { id: "a", name: "format_disk", args: '{"x"' }), callChunk(0, { args: ":1}" }), stop];
    const { blocks, reason } = readAnswer(chunks);
    expect(blocks).toEqual([text('{"name": "format_disk", "arguments": {"x":1}}')]);
    expect(reason).toBe(FinishReason.STOP);
  });

  test("calls beyond the limit are dropped", () => {
    const chunks = [0, 1, 2].map((index) => callChunk(index, { id: `${index}`, name: "run", args: "{}" }));
    expect(readAnswer([...chunks, stop], { maxCalls: 1 }).blocks).toEqual([call("0", "run", "{}")]);
  });

  test("missing or duplicate ids are replaced", () => {
    const ids = ["", "a", "a"];
    const chunks = ids.map((id, index) => callChunk(index, { id, name: "run", args: "{}" }));
    expect(readAnswer([...chunks, stop]).blocks.map(({ id }) => id)).toEqual(["new-0", "a", "new-1"]);
  });

  test("text may stand between and after calls", () => {
    const chunks = [
      callChunk(0, { id: "a", name: "run", args: "{}" }),
      chunk({ content: "\n" }),
      callChunk(1, { id: "b", name: "run", args: "{}" }),
      chunk({ content: "done" }),
      stop,
    ];
    const { blocks, reason } = readAnswer(chunks);
    expect(blocks).toEqual([call("a", "run", "{}"), call("b", "run", "{}"), text("done")]);
    expect(reason).toBe(FinishReason.TOOL_CALLS);
  });
});

describe("the end", () => {
  const usage = (prompt: number, completion: number) => ({
    choices: [],
    usage: { prompt_tokens: prompt, completion_tokens: completion },
  });

  test.each([
    ["the asked number of tokens", usage(50, 10), FinishReason.MAX_OUTPUT_TOKENS],
    ["a full window", usage(95, 5), FinishReason.CONTEXT_WINDOW],
    ["both", usage(90, 10), FinishReason.MAX_OUTPUT_TOKENS],
  ])("length means %s", (_what, counts, reason) => {
    const chunks = [chunk({ content: "a" }), finish("length"), counts];
    expect(readAnswer(chunks, { maxOutputTokens: 10, contextWindow: 100 }).reason).toBe(reason);
  });

  test("a filtered answer does not finish with stop", () => {
    expect(readAnswer([chunk({ content: "a" }), finish("content_filter")]).reason).toBe(FinishReason.CONTENT_FILTER);
  });

  test("only the caller's stop strings are reported", () => {
    const ended = (fields: object) =>
      readAnswer([chunk({ content: "a" }, { finish_reason: "stop", ...fields })], { callerStops: ["END"] });
    expect(ended({ stop_reason: "END" })).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: "END" });
    expect(ended({ matched_stop: "END" })).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: "END" });
    for (const stop_reason of [151_643, "<|im_end|>", null]) {
      expect(ended({ stop_reason })).toMatchObject({ reason: FinishReason.STOP, matchedStop: undefined });
    }
  });

  test("the node's stop string matching ends the answer at the first match", () => {
    const reader = readerOf({ stops: ["END"], callerStops: ["END"] });
    reader.read(readChunk(JSON.stringify(chunk({ content: "a E" }))));
    expect(reader.wantsNoMore).toBe(false);
    reader.read(readChunk(JSON.stringify(chunk({ content: "ND b" }))));
    expect(reader.wantsNoMore).toBe(true);
    expect(reader.end()).toMatchObject({ reason: FinishReason.STOP_SEQUENCE, matchedStop: "END" });
  });

  test.each([
    ["nothing was said", [chunk({ content: "a" })], "ENGINE_STREAM_TRUNCATED"],
    ["the engine gave up", [finish("abort")], "ENGINE_ABORTED"],
    ["the engine failed", [finish("error")], "ENGINE_ERROR"],
  ])("an end where %s is an error", (_what, chunks, reason) => {
    expect(() => readAnswer(chunks)).toThrow(expect.objectContaining({ reason }));
  });

  test("an error in the stream is thrown, in any of its forms", () => {
    const error = { message: "boom", type: "BadRequestError", code: 400 };
    for (const datum of [{ error }, { object: "error", ...error }, { error: { ...error, code: null } }]) {
      expect(() => readAnswer([chunk({ content: "a" }), datum])).toThrow(
        expect.objectContaining({ reason: "INVALID_REQUEST" }),
      );
    }
    expect(() => readAnswer([{ error: "boom" }])).toThrow(expect.objectContaining({ reason: "ENGINE_ERROR" }));
  });

  test("later counts take precedence, and absent ones keep the earlier value", () => {
    const counted = (fields: object) => ({ choices: [], usage: { prompt_tokens: 9, ...fields } });
    const { usage: found } = readAnswer([
      counted({ completion_tokens: 1, prompt_tokens_details: { cached_tokens: 4 } }),
      chunk({ content: "a" }),
      stop,
      counted({ completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 2 } }),
    ]);
    expect(found).toEqual({
      inputTokens: 9,
      cachedInputTokens: 4,
      cacheWriteTokens: 0,
      outputTokens: 3,
      reasoningTokens: 2,
    });
  });

  test("without an engine's count, reasoning tokens extend to the last piece of reasoning", () => {
    const at = (completion_tokens: number, delta: object) => ({
      ...chunk(delta),
      usage: { prompt_tokens: 9, completion_tokens },
    });
    const chunks = [at(1, { reasoning: "a" }), at(3, { reasoning: "b" }), at(4, { content: "c" }), stop];
    expect(readAnswer(chunks).usage).toMatchObject({ reasoningTokens: 3, outputTokens: 4 });
  });
});

test("text with which the caller began the answer is removed if the engine repeats it", () => {
  const said = (...texts: readonly string[]) => {
    const chunks = [...texts.map((content) => chunk({ content })), chunk({}, { finish_reason: "stop" })];
    return readAnswer(chunks, { begun: "1, 2," }).blocks.map(({ text }) => text);
  };
  expect(said("1, 2, 3", ", 4")).toEqual([" 3, 4"]);
  expect(said("1", ", 2", ", 3")).toEqual([" 3"]);
  expect(said("1, 2 and", " 1, 2,")).toEqual([" and 1, 2,"]);
  expect(said("3", "1, 2,")).toEqual(["31, 2,"]);
});
