import { expect, test } from "vitest";
import { stepOf } from "../../../../engine/backends/stream-events.ts";
import { EventWriter } from "../../../../engine/calls/event-writer.ts";
import type {
  Event,
  GenerateResponse,
  TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../support/events/events.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/** A reader that accepts messages until the test blocks it. */
function reader(maxDelayMs = 0, sendsTokens = true, minGapMs = 0) {
  const messages: (readonly Event[])[] = [];
  const tokens: (readonly number[])[] = [];
  let listener = () => {};
  const state = { ready: true };
  const sink = {
    write: (message: GenerateResponse) => {
      messages.push(message.events);
      tokens.push(message.tokens);
      return state.ready;
    },
    onDrain: (given: () => void) => {
      listener = given;
    },
  };
  const clock = new VirtualClock();
  const writer = new EventWriter(sink, { maxDelayMs, minGapMs, sendsTokens }, clock);
  const catchUp = () => {
    state.ready = true;
    listener();
  };
  return { messages, tokens, state, clock, writer, catchUp };
}

const textsOf = (messages: readonly (readonly Event[])[]) =>
  messages.map((events) => events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : kind?.$case)));

test("with a delay later deltas are batched, the first and all other events sent at once", async () => {
  const { messages, writer, clock } = reader(8);
  writer.add(stepOf([started()]));
  writer.add(stepOf([textStart(0), delta(0, "a")]));
  writer.add(stepOf([delta(0, "b")]));
  await clock.advance(4);
  writer.add(stepOf([delta(0, "c")]));
  expect(textsOf(messages)).toEqual([["started"], ["blockStarted", "a"]]);
  await clock.advance(4);
  expect(textsOf(messages).slice(2)).toEqual([["b", "c"]]);
  writer.add(stepOf([delta(0, "d")]));
  writer.add(stepOf([blockEnd(0), finished()]));
  expect(textsOf(messages).slice(3)).toEqual([["d", "blockEnded", "finished"]]);
  await clock.advance(100);
  expect(messages).toHaveLength(4);
});

test("joined deltas keep the log probabilities of all their tokens", () => {
  const { messages, state, writer, catchUp } = reader();
  const withLogprob = (token: string): Event => {
    const logprob: TokenLogprob = { token, tokenBytes: Buffer.from(token), logprob: -1, alternatives: [] };
    return { kind: { $case: "blockDelta", value: { index: 0, text: token, logprobs: [logprob] } } };
  };
  state.ready = false;
  for (const token of ["a", "b", "c"]) writer.add(stepOf([withLogprob(token)]));
  catchUp();
  expect(messages[1]).toMatchObject([{ kind: { value: { text: "bc", logprobs: [{ token: "b" }, { token: "c" }] } } }]);
});

test("flush sends held events also to a slow reader, close drops them", async () => {
  const { messages, state, writer, clock, catchUp } = reader(5);
  state.ready = false;
  writer.add(stepOf([textStart(0), delta(0, "a")]));
  writer.add(stepOf([delta(0, "b")]));
  writer.flush();
  expect(textsOf(messages)).toEqual([["blockStarted", "a"], ["b"]]);
  writer.add(stepOf([delta(0, "c")]));
  writer.close();
  catchUp();
  await clock.advance(100);
  expect(messages).toHaveLength(2);
});

test("tokens are sent with the first event after them, and at most eight are held", () => {
  const { messages, tokens, writer } = reader();
  writer.add(stepOf([started()]));
  for (let token = 1; token <= 10; token += 1) writer.add(stepOf([], [token]));
  writer.add(stepOf([textStart(0), delta(0, "a")], [11]));
  writer.add(stepOf([blockEnd(0), finished()]));
  expect(messages.map(({ length }) => length)).toEqual([1, 0, 2, 2]);
  expect(tokens).toEqual([[], [1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11], []]);
});

test("tokens are never sent after their text, in held deltas or steps of many messages", async () => {
  const { messages, tokens, state, writer, clock, catchUp } = reader(8);
  writer.add(stepOf([textStart(0), delta(0, "a")], [1]));
  writer.add(stepOf([delta(0, "b")], [2]));
  writer.add(stepOf([], [3]));
  writer.add(stepOf([delta(0, "c")], [4]));
  await clock.advance(8);
  expect(tokens).toEqual([[1], [2, 3, 4]]);
  state.ready = false;
  writer.add(stepOf([blockEnd(0), textStart(1)], [5]));
  writer.add(stepOf([delta(1, "d")], [6]));
  writer.add(stepOf([delta(1, "e")], [7, 8]));
  catchUp();
  expect(tokens.slice(2)).toEqual([[5], [6, 7, 8]]);
  const many = Array.from({ length: 70 }, (_, at) => delta(1, `${at} `));
  writer.add(stepOf([...many, blockEnd(1)], [9, 10]));
  expect(messages.slice(4).map(({ length }) => length)).toEqual([32, 32, 7]);
  expect(tokens.slice(4)).toEqual([[9, 10], [], []]);
});

test("flush sends pending tokens, and a caller that did not request tokens gets none", () => {
  const { messages, tokens, writer } = reader();
  writer.add(stepOf([started()]));
  writer.add(stepOf([], [1, 2]));
  writer.flush();
  writer.flush();
  expect([messages.length, tokens]).toEqual([2, [[], [1, 2]]]);
  const plain = reader(0, false);
  plain.writer.add(stepOf([textStart(0), delta(0, "a")], [1]));
  for (let token = 2; token <= 20; token += 1) plain.writer.add(stepOf([], [token]));
  plain.writer.flush();
  expect(plain.tokens).toEqual([[]]);
});
