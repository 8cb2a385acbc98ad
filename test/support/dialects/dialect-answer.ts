import type { DialectName } from "../../../engine/backends/openai-compatible/dialect/dialect.ts";

/** An answer of the stand-in's model, independent of a dialect. */
export type SpokenAnswer = {
  /** The reasoning in pieces. */
  readonly reasoning?: readonly string[];
  /** The visible text in pieces. */
  readonly text?: readonly string[];
  readonly calls?: readonly SpokenCall[];
  /** The finish reason. Default: follows from the content. */
  readonly finish?: "stop" | "length" | "tool_calls" | "abort" | "content_filter";
  /** The matched stop string, or the id of a stop token. */
  readonly stop?: string | number;
  /** The number of cached prompt tokens. Default: not reported. */
  readonly cachedTokens?: number;
};

/** A tool call of a stand-in's model; its arguments are in pieces. */
export type SpokenCall = { readonly id: string; readonly name: string; readonly arguments: readonly string[] };

/** The number of prompt tokens that stand-ins report. */
export const PROMPT_TOKENS = 40;

type Delta = Readonly<Record<string, unknown>>;
type Render = (answer: SpokenAnswer, isNamed: boolean) => readonly object[];

/**
 * For each dialect, the chunks in which its engine streams an answer, with the engine's quirks. `isNamed`: the caller
 * named a tool.
 */
export const renderAnswer: Readonly<Record<DialectName, Render>> = {
  vllm: renderVllm,
  sglang: renderSglang,
  "llama-server": renderLlamaServer,
};

/**
 * Reasoning as `reasoning`; no unset keys; the finish reason on the last delta; usage on every chunk, without cached
 * tokens.
 */
function renderVllm(answer: SpokenAnswer, isNamed: boolean): readonly object[] {
  const deltas = [
    { role: "assistant", content: "" },
    ...(answer.reasoning ?? []).map((reasoning) => ({ reasoning })),
    ...(answer.text ?? []).map((content) => ({ content })),
    ...callDeltas(answer, (call, index, position, piece) => ({
      index,
      ...(position === 0 ? { id: call.id, type: "function" } : {}),
      function: { ...(position === 0 ? { name: call.name } : {}), arguments: piece },
    })),
  ];
  const finish = isNamed && !answer.finish ? "stop" : finishOf(answer);
  const chunks = deltas.map((delta, at) => ({
    object: "chat.completion.chunk",
    choices: [
      {
        index: 0,
        delta,
        ...(at === deltas.length - 1
          ? { finish_reason: finish, ...(answer.stop === undefined ? {} : { stop_reason: answer.stop }) }
          : {}),
      },
    ],
    usage: { prompt_tokens: PROMPT_TOKENS, completion_tokens: at, total_tokens: PROMPT_TOKENS + at },
  }));
  const total = deltas.length - 1;
  const details = { prompt_tokens_details: { cached_tokens: answer.cachedTokens ?? 0 } };
  return [...chunks, { choices: [], usage: { prompt_tokens: PROMPT_TOKENS, completion_tokens: total, ...details } }];
}

/** `null` for everything unset, id and name on every fragment, and a separate finish chunk. */
function renderSglang(answer: SpokenAnswer): readonly object[] {
  const blank = { role: null, content: null, reasoning_content: null, tool_calls: null };
  const deltas: Delta[] = [
    { ...blank, role: "assistant", content: "" },
    ...(answer.reasoning ?? []).map((piece) => ({ ...blank, reasoning_content: piece })),
    ...(answer.text ?? []).map((content) => ({ ...blank, content })),
    ...callDeltas(answer, (call, index, _position, piece) => ({
      id: call.id,
      index,
      type: "function",
      function: { name: call.name, arguments: piece },
    })).map((delta) => ({ ...blank, ...delta })),
  ];
  const stop = answer.stop ?? 151_645;
  const chunk = (delta: Delta, finish: string | null, at: number) => ({
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish, matched_stop: finish === null ? null : stop }],
    usage: at === 0 ? null : { prompt_tokens: PROMPT_TOKENS, completion_tokens: at, prompt_tokens_details: null },
  });
  const total = deltas.length - 1;
  return [
    ...deltas.map((delta, at) => chunk(delta, null, at)),
    chunk(blank, finishOf(answer), total),
    {
      choices: [],
      usage: {
        prompt_tokens: PROMPT_TOKENS,
        completion_tokens: total,
        prompt_tokens_details: { cached_tokens: answer.cachedTokens ?? 0 },
        reasoning_tokens: answer.reasoning?.length ?? 0,
      },
    },
  ];
}

/** Prompt progress first; timings on every chunk; the matched stop string is not reported. */
function renderLlamaServer(answer: SpokenAnswer): readonly object[] {
  const cached = answer.cachedTokens ?? 0;
  const timings = (predicted: number) => ({
    cache_n: cached,
    prompt_n: PROMPT_TOKENS - cached,
    predicted_n: predicted,
  });
  const head = { delta: { role: "assistant", content: null }, index: 0, finish_reason: null };
  const progress = (processed: number) => ({
    choices: [head],
    timings: { cache_n: 0, prompt_n: 0, predicted_n: 0 },
    prompt_progress: { total: PROMPT_TOKENS, cache: cached, processed, time_ms: 1 },
  });
  const deltas: Delta[] = [
    ...(answer.reasoning ?? []).map((piece) => ({ reasoning_content: piece })),
    ...(answer.text ?? []).map((content) => ({ content })),
    ...callDeltas(answer, (call, index, position, piece) => ({
      index,
      ...(position === 0 ? { id: call.id, type: "function" } : {}),
      function: { ...(position === 0 ? { name: call.name } : {}), arguments: piece },
    })),
  ];
  const usage = {
    prompt_tokens: PROMPT_TOKENS,
    completion_tokens: deltas.length,
    prompt_tokens_details: { cached_tokens: cached },
  };
  return [
    progress(cached),
    progress(PROMPT_TOKENS),
    { choices: [head] },
    ...deltas.map((delta, at) => ({ choices: [{ delta, index: 0, finish_reason: null }], timings: timings(at + 1) })),
    { choices: [{ delta: {}, index: 0, finish_reason: finishOf(answer) }] },
    { choices: [], usage, timings: timings(deltas.length) },
  ];
}

function callDeltas(
  { calls }: SpokenAnswer,
  fragment: (call: SpokenCall, index: number, position: number, piece: string) => object,
): Delta[] {
  return (calls ?? []).flatMap((call, index) =>
    call.arguments.map((piece, position) => ({ tool_calls: [fragment(call, index, position, piece)] })),
  );
}

function finishOf(answer: SpokenAnswer): string {
  return answer.finish ?? ((answer.calls?.length ?? 0) > 0 ? "tool_calls" : "stop");
}
