import { parseSse } from "./sse-reader.ts";

/*
 * Answers to one request are compared by their content, without the parts that differ each time: ids and times, the
 * split of text into pieces, and the cached share of the prompt.
 */

type Json = Readonly<Record<string, unknown>>;

export type Comparable = readonly { readonly event: string; readonly text?: string }[];

/** Positions of a block's pieces in events of all formats. */
const PIECES: readonly (readonly (string | number)[])[] = [
  ["choices", 0, "delta", "content"],
  ["choices", 0, "delta", "reasoning_content"],
  ["choices", 0, "delta", "tool_calls", 0, "function", "arguments"],
  ["delta", "text"],
  ["delta", "thinking"],
  ["delta", "partial_json"],
  ["delta"],
];

const SIGNS_OF_LIFE = ["ping", "keepalive"];
const NEW_EACH_TIME = new Set([
  "created",
  "created_at",
  "completed_at",
  "sequence_number",
  "signature",
  // Settings of the engine in a stream depend on whether an engine was assigned when it began.
  "max_output_tokens",
  "top_p",
]);
const CACHE = new Set(["prompt_tokens_details", "input_tokens_details", "cache_creation"]);
const CACHED = ["cache_read_input_tokens", "cache_creation_input_tokens"];

const OUTPUT_COUNTS = new Set(["output_tokens", "completion_tokens", "total_tokens"]);

export type Compared = {
  readonly stream: boolean;
  /** Whether the number of output tokens is compared, too. */
  readonly counts: boolean;
};

/** Normalizes a complete reply. Throws on any other text. */
export function comparable(text: string, { stream, counts }: Compared): Comparable {
  const ids = new Map<string, string>();
  const events = stream ? parseSse(text).map(({ data }) => data) : [JSON.parse(text)];
  const joined: { event: string; text?: string }[] = [];
  for (const event of events) {
    if (SIGNS_OF_LIFE.includes(String((event as Json | null)?.type))) continue;
    const { event: shape, text: piece } = pieceOf(withoutNew(event, ids, counts));
    const last = joined.at(-1);
    if (piece === undefined) joined.push({ event: shape });
    else if (last?.event === shape) last.text += piece;
    else joined.push({ event: shape, text: piece });
  }
  return joined;
}

/** Returns the texts of all blocks of a stream, in order. */
export function textsOf(answer: Comparable): readonly string[] {
  return answer.flatMap(({ text }) => (text ? [text] : []));
}

/** Copies a value without ids and times; ids are numbered in order of appearance. */
function withoutNew(value: unknown, ids: Map<string, string>, counts: boolean): unknown {
  if (Array.isArray(value)) return value.map((one) => withoutNew(one, ids, counts));
  if (typeof value !== "object" || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(value)) {
    if (NEW_EACH_TIME.has(name) || CACHE.has(name) || CACHED.includes(name)) continue;
    if (!counts && OUTPUT_COUNTS.has(name)) continue;
    if (/^(?:id|.*_id)$/.test(name) && typeof one === "string") {
      if (!ids.has(one)) ids.set(one, `id ${ids.size}`);
      copy[name] = ids.get(one);
    } else copy[name] = withoutNew(one, ids, counts);
  }
  // Format B's count of input tokens excludes cached ones.
  if (typeof copy.input_tokens === "number") {
    const cached = CACHED.map((name) => Number((value as Json)[name] ?? 0));
    copy.input_tokens = cached.reduce((sum, one) => sum + one, copy.input_tokens);
  }
  return copy;
}

function pieceOf(event: unknown): { readonly event: string; readonly text?: string } {
  for (const path of PIECES) {
    const holder = path.slice(0, -1).reduce<unknown>((at, step) => (at as Json | undefined)?.[step], event);
    const name = path.at(-1) ?? "";
    const piece = typeof holder === "object" && holder !== null ? (holder as Json)[name] : undefined;
    if (typeof piece !== "string") continue;
    const blank = JSON.stringify(event, function (this: unknown, key, value) {
      return this === holder && key === String(name) ? "" : value;
    });
    return { event: blank, text: piece };
  }
  return { event: JSON.stringify(event) ?? "" };
}
