import { describe, expect, test } from "vitest";
import { AnswerLedger } from "../../../../../gateway/upstream/continuation/answer-ledger.ts";
import { Replay } from "../../../../../gateway/upstream/continuation/replay.ts";
import type { Event, TokenLogprob } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../../../support/events/events.ts";
import { SeededRandom } from "../../../../support/seeded-random.ts";

/** An answer of three blocks, one delta a character. */
const REASONING = "I had better look 🦊.";
const ARGUMENTS = '{"path":"a\\nb","n":[1,2]}';
const TEXT = "So schön.";
const perCharacter = (index: number, text: string) => [...text].map((character) => delta(index, character));
const ANSWER: readonly Event[] = [
  started(),
  reasoningStart(0),
  ...perCharacter(0, REASONING),
  blockEnd(0),
  toolCallStart(1, "read", "call_7"),
  ...perCharacter(1, ARGUMENTS),
  blockEnd(1),
  textStart(2),
  ...perCharacter(2, TEXT),
  blockEnd(2),
  finished(),
];

function ledgerOf(events: readonly Event[], tokens: readonly number[] = []): AnswerLedger {
  const ledger = new AnswerLedger();
  ledger.tokens.add(tokens);
  ledger.addEvents(events);
  return ledger;
}

/** Joins deltas of one block that follow one another, as often as `joins` says so. */
function cutAnew(events: readonly Event[], joins: () => boolean): Event[] {
  const all: Event[] = [];
  for (const event of events) {
    const last = all.at(-1)?.kind;
    const { kind } = event;
    if (kind?.$case === "blockDelta" && last?.$case === "blockDelta" && joins())
      all[all.length - 1] = delta(kind.value.index, last.value.text + kind.value.text);
    else all.push(event);
  }
  return all;
}

/** The caller's view: each block with its text, and all ends. */
function read(events: readonly Event[]): string {
  return events
    .map(({ kind }) => {
      if (kind?.$case === "blockDelta") return kind.value.text;
      return kind?.$case === "blockStarted" ? `<${kind.value.index}:${kind.value.block?.$case}>` : `<${kind?.$case}>`;
    })
    .join("");
}

describe("a replayed answer", () => {
  test("a replayed answer is passed on from the caller's position, wherever that is and however it is cut", () => {
    const random = new SeededRandom(13);
    for (let passed = 1; passed < ANSWER.length; passed += 1) {
      const before = ANSWER.slice(0, passed);
      const replay = new Replay(ledgerOf(before));
      const rest = cutAnew(ANSWER, () => random.next() < 0.7).flatMap(
        (event) => replay.newEvents([event]) ?? [started()],
      );
      expect(read([...before, ...rest])).toBe(read(ANSWER));
      expect(replay.caughtUp).toBe(true);
    }
  });

  test("a replayed answer keeps the log probabilities with their text where a delta is split", () => {
    const token = (text: string): TokenLogprob => ({
      token: text,
      tokenBytes: Buffer.alloc(0),
      logprob: 0,
      alternatives: [],
    });
    const withLogprobs = (text: string, ...tokens: readonly string[]): Event => ({
      kind: { $case: "blockDelta", value: { index: 0, text, logprobs: tokens.map(token) } },
    });
    const replay = new Replay(ledgerOf([started(), textStart(0), withLogprobs("ab", "ab"), withLogprobs("c", "cd")]));
    const rest = replay.newEvents([started(), textStart(0), withLogprobs("abcdef", "ab", "cd", "ef")]);
    expect(rest).toEqual([withLogprobs("def", "ef")]);
  });

  test("a replayed answer lets keep-alives through meanwhile", () => {
    const progress: Event = { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens: 5, step: 1 } } };
    const replay = new Replay(ledgerOf(ANSWER.slice(0, 9)));
    expect(replay.newEvents([progress, started(), progress])).toEqual([progress, progress]);
  });

  const changed = (change: (events: Event[]) => Event[], passed = 40): readonly Event[] | undefined => {
    const replay = new Replay(ledgerOf(ANSWER.slice(0, passed)));
    for (const event of change([...ANSWER])) if (!replay.newEvents([event])) return undefined;
    return [];
  };

  test.each([
    ["another revision", (events: Event[]) => [started({ modelRevision: "r2" }), ...events.slice(1)]],
    ["another kind of block", (events: Event[]) => [events[0], textStart(0), ...events.slice(2)]],
    ["another character", (events: Event[]) => events.with(5, delta(0, "x"))],
    ["a character less", (events: Event[]) => events.toSpliced(5, 1)],
    ["a character more", (events: Event[]) => events.toSpliced(5, 0, delta(0, "x"))],
    ["a block that did not become whole", (events: Event[]) => events.with(REASONING.length + 1, blockEnd(0, false))],
    ["another call", (events: Event[]) => events.with(REASONING.length + 2, toolCallStart(1, "read", "call_8"))],
    ["another tool", (events: Event[]) => events.with(REASONING.length + 2, toolCallStart(1, "write", "call_7"))],
    ["an end before all is repeated", (events: Event[]) => [...events.slice(0, 22), finished()]],
  ] as const)("a replayed answer is another answer with %s", (_what, change) => {
    expect(changed((events) => change(events) as Event[])).toBeUndefined();
    expect(changed((events) => events)).toEqual([]);
  });

  test("a replayed answer is another answer if the digest differs at the caller's position", () => {
    const replay = new Replay(ledgerOf([started(), textStart(0), delta(0, "abc")]));
    expect(replay.newEvents([started(), textStart(0), delta(0, "abxdef")])).toBeUndefined();
  });
});

describe("the tokens of an engine that continues", () => {
  test("the tokens of an engine that continues are the given ones, then its own", () => {
    const replay = new Replay(ledgerOf([started()], [1, 2, 3]));
    expect(replay.newTokens([1, 2])).toEqual([]);
    expect(replay.advanced).toBe(false);
    expect(replay.newTokens([3, 4])).toEqual([4]);
    expect(replay.newTokens([5])).toEqual([5]);
    expect(replay.advanced).toBe(true);
  });

  test("the tokens of an engine that continues are wrong if they differ from the given ones", () => {
    expect(new Replay(ledgerOf([started()], [1, 2, 3])).newTokens([1, 4])).toBeUndefined();
  });
});
