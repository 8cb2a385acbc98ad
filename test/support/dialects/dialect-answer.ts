import type { DialectName } from "../../../engine/backends/openai-compatible/dialect/dialect.ts";

/** What the stand-in's model says, in words of no dialect. */
export type SpokenAnswer = {
  /** The reasoning, piece by piece. */
  readonly reasoning?: readonly string[];
  /** The visible text, piece by piece. */
  readonly text?: readonly string[];
  /** The tool calls, in their order. */
  readonly calls?: readonly SpokenCall[];
  /** The reason why the answer ends. Default: what the content asks for. */
  readonly finish?: "stop" | "length" | "tool_calls" | "abort" | "content_filter";
  /** The stop string that was met, or the id of a stop token. */
  readonly stop?: string | number;
  /** The number of prompt tokens that were in the cache. Default: the engine tells none. */
  readonly cachedTokens?: number;
};

/** A tool call of a stand-in's model, whose arguments come piece by piece. */
export type SpokenCall = { readonly id: string; readonly name: string; readonly arguments: readonly string[] };

/** The number of tokens that stand-ins say every prompt has. */
export const PROMPT_TOKENS = 40;

type Delta = Readonly<Record<string, unknown>>;
type Render = (answer: SpokenAnswer, isNamed: boolean) => readonly object[];

/**
 * Makes, for each dialect, the chunks in which its engine streams an answer, the engine's habits included. `isNamed`
 * says whether the caller named a tool.
 */
export const renderAnswer: Readonly<Record<DialectName, Render>> = {
  vllm: renderVllm,
  sglang: renderSglang,
  "llama-server": renderLlamaServer,
};

/**
 * Reasoning as `reasoning`; no key that is not set; the finish on the last delta; usage on every chunk, without the
 * cache.
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

/**
 * Renders an answer as SGLang does: `null` for everything that is not set, id and name on every fragment, and a finish
 * chunk of its own.
 */
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

/** The progress of the prompt first; timings on every chunk; never a word about which stop string it was. */
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
