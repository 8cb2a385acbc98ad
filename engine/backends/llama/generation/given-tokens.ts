import type { Token } from "node-llama-cpp";
import type { Event, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { joinedDelta } from "../../stream-events.ts";
import type { AnswerCourse, AnswerStep } from "./answer-course.ts";

/** The most tokens per slice: a few milliseconds of work. */
const SLICE_TOKENS = 128;
/** The length of a delta, in UTF-16 units, at which no further one is joined to it. */
const LONG_DELTA_UNITS = 4096;

/** Takes `count` given tokens, joins their deltas, and awaits `turn` before each slice. Throws as `takeGiven` does. */
export async function takeGivenTokens(
  course: AnswerCourse,
  count: number,
  turn: () => Promise<void>,
): Promise<AnswerStep> {
  const events: Event[] = [];
  const tokens: Token[] = [];
  let sliceEnd = 0;
  while (tokens.length < count) {
    if (tokens.length >= sliceEnd) {
      await turn();
      sliceEnd = tokens.length + SLICE_TOKENS;
    }
    const step = course.takeGiven();
    for (const token of step.tokens) tokens.push(token);
    for (const event of step.events) append(events, event);
  }
  return { events, tokens };
}

/** Resolves to the number of given tokens whose text was already sent; the others are sent with log probabilities. */
export async function tokensBehindHeldText(
  trial: () => AnswerCourse,
  count: number,
  turn: () => Promise<void>,
): Promise<number> {
  if (count === 0) return 0;
  const course = trial();
  const ends = new Map<TokenLogprob, number>();
  let known = 0;
  let inCall = false;
  for (let steps = 0; course.position < count; steps += 1) {
    if (steps % SLICE_TOKENS === 0) await turn();
    const mark: TokenLogprob = { token: "", tokenBytes: Buffer.alloc(0), logprob: 0, alternatives: [] };
    const before = course.position;
    const { events } = course.takeGiven(mark);
    ends.set(mark, course.position);
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") inCall = kind.value.block?.$case === "toolCall";
      // Arguments have no log probabilities, and all text before them has been sent.
      if (inCall) known = Math.max(known, before);
      const told = kind?.$case === "blockDelta" ? kind.value.logprobs : [];
      for (const one of told) {
        const end = ends.get(one) ?? 0;
        // The caller has not received a step that inserted more tokens than were given.
        if (end <= count) known = Math.max(known, end);
      }
    }
  }
  return known;
}

function append(events: Event[], event: Event): void {
  const last = events.at(-1);
  const isLong = last?.kind?.$case === "blockDelta" && last.kind.value.text.length >= LONG_DELTA_UNITS;
  const joined = last && !isLong ? joinedDelta(last, event) : undefined;
  if (joined) events[events.length - 1] = joined;
  else events.push(event);
}
