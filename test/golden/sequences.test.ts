import { describe, expect, test } from "vitest";
import { engineLost } from "../../gateway/errors.ts";
import type { StreamEncoder } from "../../gateway/formats/format.ts";
import { type Event, FinishReason } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { CHECKED_FORMATS, type CheckedFormat, type Variant } from "../support/checkers/legal-streams.ts";
import { type Frame, framesOf, StreamFault } from "../support/checkers/stream-text.ts";
import { eventsOf, reasonsOf, type Shape, shapes } from "../support/events/canonical-sequences.ts";
import { CONTEXT, HEAD } from "../support/events/encoding-context.ts";
import { sizeOf } from "../support/size.ts";

/*
 * Every answer up to a bound through every encoder, checked by code that implements the wire rules independently of the
 * encoders.
 */

const lost = engineLost("upstream_reset");
const progress: Event = { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens: 1, step: 0 } } };

/** Returns the broken rule of a stream, or undefined when it is legal. */
function faultOf({ check }: Variant, frames: readonly Frame[]): string | undefined {
  try {
    check(frames);
    return undefined;
  } catch (error) {
    if (error instanceof StreamFault) return error.message;
    throw error;
  }
}

function encoderOf({ format }: CheckedFormat, { body }: Variant): StreamEncoder {
  return format.encoder(HEAD, format.prepare(body, CONTEXT).options);
}

/** The text of a whole answer, with a keep-alive and an event without output at every legal position. */
function withSignsOfLife(encoder: StreamEncoder, events: readonly Event[]): string {
  let text = encoder.keepAlive();
  for (const event of events) text += encoder.next(progress) + encoder.next(event) + encoder.keepAlive();
  return text;
}

function failedAfter(encoder: StreamEncoder, events: readonly Event[]): string {
  return events.map((event) => encoder.next(event)).join("") + encoder.fail(lost);
}

function whole(encoder: StreamEncoder, events: readonly Event[]): string {
  return events.map((event) => encoder.next(event)).join("");
}

/** The text of a whole answer whose deltas come as texts alone, as they do after the first one of a call. */
function byText(encoder: StreamEncoder, events: readonly Event[]): string {
  const frames = events.map((event) => {
    const { kind } = event;
    return kind?.$case === "blockDelta" && kind.value.logprobs.length === 0
      ? encoder.text(kind.value.text)
      : encoder.next(event);
  });
  return frames.join("");
}

/** Blocks that an answer has at most. */
const MAX_BLOCKS = sizeOf({ quick: 2, exhaustive: 3 });

/** Answers with every possible reason of their end; the many longest ones with each reason in turn. */
function answers(): { readonly shape: Shape; readonly events: readonly Event[] }[] {
  return [...shapes(MAX_BLOCKS)].flatMap((shape, position) => {
    const reasons = reasonsOf(shape);
    const taken = shape.blocks.length < MAX_BLOCKS ? reasons : reasons.slice(position % reasons.length).slice(0, 1);
    return taken.map((reason) => ({ shape, events: eventsOf(shape, reason) }));
  });
}

/** Every prefix of every answer, once. */
function beginnings(all: readonly { readonly events: readonly Event[] }[]): (readonly Event[])[] {
  const found = new Map<string, readonly Event[]>();
  for (const { events } of all)
    for (let length = 0; length < events.length; length += 1) {
      const part = events.slice(0, length);
      found.set(JSON.stringify(part), part);
    }
  return [...found.values()];
}

const ANSWERS = answers();
const BEGINNINGS = beginnings(ANSWERS);

describe.each(CHECKED_FORMATS)("$format.name", (checked) => {
  const { variants } = checked;

  test("every answer, failure and keep-alive is a legal stream", () => {
    const faults: string[] = [];
    const check = (text: string, variant: Variant, what: object) => {
      const fault = faultOf(variant, framesOf(text));
      if (fault !== undefined) faults.push(`${fault}: ${JSON.stringify(what)}`);
    };
    for (const variant of variants) {
      for (const { shape, events } of ANSWERS) {
        const text = whole(encoderOf(checked, variant), events);
        check(text, variant, shape);
        if (byText(encoderOf(checked, variant), events) !== text) faults.push(`by text: ${JSON.stringify(shape)}`);
        check(withSignsOfLife(encoderOf(checked, variant), events), variant, { shape, alive: true });
      }
      for (const events of BEGINNINGS)
        check(failedAfter(encoderOf(checked, variant), events), variant, { events, failed: true });
    }
    expect(faults.slice(0, 5)).toEqual([]);
  }, 60_000);

  test("no event is written after the end", () => {
    for (const variant of variants) {
      const events = eventsOf({ blocks: [{ kind: "text", deltas: 1 }], cut: false }, FinishReason.STOP);
      for (const end of [whole, failedAfter]) {
        const encoder = encoderOf(checked, variant);
        end(encoder, events);
        const more = [...events, progress].map((event) => encoder.next(event)).join("");
        expect(more + encoder.keepAlive() + encoder.fail(lost)).toBe("");
      }
    }
  });
});

/** An answer in which every frame matters: every kind of block, and arguments in two pieces. */
const RICH = eventsOf(
  {
    blocks: [
      { kind: "reasoning", deltas: 1 },
      { kind: "text", deltas: 2 },
      { kind: "toolCall", deltas: 2 },
      { kind: "toolCall", deltas: 0 },
    ],
    cut: false,
  },
  FinishReason.TOOL_CALLS,
);

/** Renumbers after a change, so that the numbers alone do not reveal it. */
function renumbered(frames: readonly Frame[]): Frame[] {
  return frames.map(({ event, data }, number) =>
    typeof data === "object" ? { event, data: { ...data, sequence_number: number } } : { event, data },
  );
}

/** Text without a total in the format: another piece, or one less, is another legal answer. */
const FREE_TEXT: Readonly<Record<string, RegExp>> = {
  chat: /"delta":\{"(?:reasoning_)?content":/,
  messages: /"type":"(?:text|thinking)_delta"/,
};

/** Truncated arguments are plain text. */
const FREE_ARGUMENTS = /"delta":\{"tool_calls":\[\{"index":\d+,"function"|"type":"input_json_delta"/;

type Change = { readonly what: string; readonly frames: readonly Frame[] };

function changes(frames: readonly Frame[], name: string, failed: boolean): Change[] {
  const isFree = (frame: Frame | undefined) => {
    const text = JSON.stringify(frame?.data ?? "");
    return FREE_TEXT[name]?.test(text) || (failed && name !== "responses" && FREE_ARGUMENTS.test(text));
  };
  return frames.flatMap((frame, at): Change[] => {
    const next = frames[at + 1];
    const before = frames.slice(0, at);
    const after = frames.slice(at + 1);
    const free = isFree(frame);
    const found: Change[] = [{ what: `cut before ${at}`, frames: before }];
    // The only piece of a block of Format B cannot be removed: the block would be empty.
    const only = name === "messages" && !failed && !isFree(next) && !isFree(frames[at - 1]);
    if (!free || only) found.push({ what: `without ${at}`, frames: [...before, ...after] });
    if (!free) found.push({ what: `${at} twice`, frames: [...before, frame, ...frames.slice(at)] });
    if (next && !(free && isFree(next)))
      found.push({ what: `${at} behind its next`, frames: [...before, next, frame, ...after.slice(1)] });
    return found;
  });
}

describe.each(CHECKED_FORMATS)("the checker of $format.name", (checked) => {
  const { name } = checked.format;

  test.each(["was answered", "failed"])(
    "the checker refuses a request that %s when a frame of its stream moved",
    (how) => {
      const [variant] = checked.variants;
      const encoder = encoderOf(checked, variant);
      const failed = how === "failed";
      const frames = framesOf(failed ? failedAfter(encoder, RICH.slice(0, 10)) : whole(encoder, RICH));
      expect(faultOf(variant, frames)).toBeUndefined();
      const all = changes(frames, name, failed);
      expect(all.length).toBeGreaterThan(frames.length * 2);
      const accepted = all.filter((change) => faultOf(variant, renumbered(change.frames)) === undefined);
      expect(accepted.map(({ what }) => what)).toEqual([]);
    },
  );

  test("the checker refuses parts that the request excluded", () => {
    const [first, ...others] = checked.variants;
    const frames = framesOf(whole(encoderOf(checked, first), RICH));
    for (const other of others) expect(faultOf(other, frames)).toBeDefined();
  });
});
