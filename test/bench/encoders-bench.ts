import { chat } from "../../gateway/formats/chat/request.ts";
import type { Format } from "../../gateway/formats/format.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { EventOrder } from "../../gateway/upstream/call/event-order.ts";
import { type Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { delta, reasoningStart, started, textStart, toolCallStart } from "../support/events/events.ts";
import { BENCH_CONTEXT, BENCH_HEAD } from "./format-context.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianOf, medianRatio } from "./report/compare.ts";
import { interleave } from "./report/interleave.ts";
import type { BenchSettings } from "./settings.ts";

const DELTAS = 100_000;
const DELTAS_QUICK = 20_000;
/** A token of code, with something in it to escape. */
const TEXT = ' return "';
/** The number of deltas of one answer: an encoder that keeps its text shall not keep more than one does. */
const DELTAS_PER_ANSWER = 2_000;

/** Gives a function that does the work of one delta; each is called for one answer's deltas. */
type Work = { readonly name: string; begin(): () => number };

const BLOCKS: Readonly<Record<string, Event>> = {
  text: textStart(0),
  reasoning: reasoningStart(0),
  arguments: toolCallStart(0, "read"),
};

const MODEL = "svc-qwen";
const READ = { name: "read", description: "Reads a file" };
const PARAMETERS = { type: "object", properties: {} };

/** Bodies whose answers show reasoning and may call a tool. */
const BODIES: readonly (readonly [Format, object])[] = [
  [
    chat,
    {
      ...{ model: MODEL, stream: true, messages: [{ role: "user", content: "hi" }] },
      tools: [{ type: "function", function: { ...READ, parameters: PARAMETERS } }],
    },
  ],
  [
    messages,
    {
      ...{ model: MODEL, stream: true, max_tokens: 4_096, messages: [{ role: "user", content: "hi" }] },
      thinking: { type: "enabled", budget_tokens: 1_024 },
      tools: [{ ...READ, input_schema: PARAMETERS }],
    },
  ],
  [
    responses,
    {
      ...{ model: MODEL, stream: true, input: "hi", reasoning: { summary: "auto" } },
      tools: [{ type: "function", ...READ, parameters: PARAMETERS, strict: false }],
    },
  ],
];

/**
 * Measures what one delta costs each encoder, beside the escaping of its text and the reading of its message. It does
 * no I/O.
 */
export async function encodersBench(settings: BenchSettings): Promise<BenchResult> {
  const deltas = settings.quick ? DELTAS_QUICK : DELTAS;
  const works = [ESCAPE, NAIVE, DECODE, ORDER, ...BODIES.flatMap(([format, body]) => encoderWorks(format, body))];
  const rounds = await interleave(works, settings.repetitions, async (work) => nanoseconds(work, deltas));
  const rows = works.map(
    ({ name }): Row => ({
      work: name,
      toEscape: medianRatio(rounds, name, ESCAPE.name, (ns) => ns),
      toNaive: medianRatio(rounds, name, NAIVE.name, (ns) => ns),
      nsPerDelta: medianOf(rounds, name, (ns) => ns),
    }),
  );
  return {
    title: "encoders: one delta of nine characters",
    columns: [
      { key: "work", title: "work" },
      { key: "toEscape", title: "to escaping", digits: 2 },
      { key: "toNaive", title: "to naive", digits: 2 },
      { key: "nsPerDelta", title: "ns/delta", digits: 0 },
    ],
    rows,
    notes: [
      "Escaping: JSON.stringify of the text. Naive: JSON.stringify of a whole chunk of Format A.",
      `Median of ${settings.repetitions} rounds of ${deltas} deltas.`,
    ],
  };
}

const ESCAPE: Work = { name: "escaping", begin: () => () => JSON.stringify(TEXT).length };

const NAIVE: Work = {
  name: "naive chunk",
  begin: () => () => {
    const choices = [{ index: 0, delta: { content: TEXT }, logprobs: null, finish_reason: null }];
    const chunk = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: MODEL, choices };
    return `data: ${JSON.stringify(chunk)}\n\n`.length;
  },
};

const DECODE: Work = {
  name: "protobuf decoding",
  begin() {
    const message = GenerateResponse.encode({ events: [delta(0, TEXT)], tokens: [] }).finish();
    return () => GenerateResponse.decode(message).events.length;
  },
};

const ORDER: Work = {
  name: "order check",
  begin() {
    const order = new EventOrder();
    for (const event of [started(), textStart(0)]) order.allows(event);
    const event = delta(0, TEXT);
    return () => Number(order.allows(event));
  },
};

function encoderWorks(format: Format, body: object): Work[] {
  return Object.entries(BLOCKS).map(([block, start]) => ({
    name: `${format.name} ${block}`,
    begin() {
      const encoder = format.encoder(BENCH_HEAD, format.prepare(body, BENCH_CONTEXT).options);
      for (const event of [started(), start]) encoder.next(event);
      const event = delta(0, TEXT);
      if (encoder.next(event) === "") throw new Error(`${format.name} shows nothing of a ${block} delta`);
      return () => encoder.next(event).length;
    },
  }));
}

function nanoseconds(work: Work, deltas: number): number {
  let elapsedMs = 0;
  let characters = 0;
  for (let done = 0; done < deltas; done += DELTAS_PER_ANSWER) {
    const step = work.begin();
    const startedMs = performance.now();
    for (let count = 0; count < DELTAS_PER_ANSWER; count += 1) characters += step();
    elapsedMs += performance.now() - startedMs;
  }
  // What is made must be of use to somebody, or the compiler may leave it out.
  if (characters < deltas) throw new Error(`${work.name} made nothing`);
  return (elapsedMs * 1e6) / deltas;
}
