import type { DialectName } from "../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { END_TOKEN, rawPieces, type SpokenAnswer, toTokens } from "./stand-in-text.ts";

/** How an engine streams an answer to a prompt of some tokens, with the engine's quirks. */
export type EventWriter = {
  readonly piece: (text: string, before: string) => object;
  readonly answer: (answer: SpokenAnswer, promptTokens: number) => readonly object[];
};

type Ends = Pick<EventWriter, "piece"> & {
  readonly head?: (answer: SpokenAnswer, promptTokens: number) => readonly object[];
  readonly end: (answer: SpokenAnswer, text: string, promptTokens: number) => readonly object[];
};

function writer({ piece, head, end }: Ends): EventWriter {
  return {
    piece,
    answer(answer, promptTokens) {
      let text = "";
      const events = rawPieces(answer).map((said) => {
        const event = piece(said, text);
        text += said;
        return event;
      });
      return [...(head?.(answer, promptTokens) ?? []), ...events, ...end(answer, text, promptTokens)];
    },
  };
}

/** vLLM: the end token comes with the finish reason and without text; the usage in an event of its own. */
const vllm = writer({
  piece: (text) => ({
    choices: [{ index: 0, finish_reason: null, stop_reason: null, token_ids: toTokens(text), text, logprobs: null }],
    usage: null,
  }),
  end: ({ finish = "stop", cachedTokens = 0 }, _text, promptTokens) => [
    { choices: [{ index: 0, finish_reason: finish, token_ids: finish === "stop" ? [END_TOKEN] : [], text: "" }] },
    { choices: [], usage: { prompt_tokens: promptTokens, prompt_tokens_details: { cached_tokens: cachedTokens } } },
  ],
});

/** SGLang: text and tokens are all so far, and the finish reason is an object. */
const sglang = writer({
  piece: (text, before) => sglangEvent(before + text, [], null, {}),
  end: ({ finish = "stop", cachedTokens = 0 }, text) => [
    sglangEvent(
      text,
      finish === "stop" ? [END_TOKEN] : [],
      finish === "stop" ? { type: finish, matched: END_TOKEN } : { type: finish },
      { cached_tokens: cachedTokens },
    ),
  ],
});

function sglangEvent(text: string, last: readonly number[], finish: object | null, more: object): object {
  const ids = [...toTokens(text), ...last];
  return { text, output_ids: ids, meta_info: { finish_reason: finish, completion_tokens: ids.length, ...more } };
}

/**
 * llama-server: the prompt's progress first, with a token 0 that is none; the end token in an event without text; and
 * the counts in the last event.
 */
const llamaServer = writer({
  piece: (text) => ({ content: text, tokens: toTokens(text), stop: false }),
  head: ({ cachedTokens = 0 }, promptTokens) =>
    [cachedTokens, promptTokens].map((processed) => ({
      ...{ content: "", tokens: [0], stop: false },
      prompt_progress: { total: promptTokens, cache: cachedTokens, processed, time_ms: 1 },
    })),
  end: ({ finish = "stop", cachedTokens = 0 }, _text, promptTokens) => [
    ...(finish === "stop" ? [{ content: "", tokens: [END_TOKEN], stop: false }] : []),
    {
      ...{
        content: "",
        tokens: [],
        stop: true,
        timings: { cache_n: cachedTokens, prompt_n: promptTokens - cachedTokens },
      },
      stop_type: finish === "stop" ? "eos" : finish === "length" ? "limit" : "none",
    },
  ],
});

export const EVENTS: Readonly<Record<DialectName, EventWriter>> = { vllm, sglang, "llama-server": llamaServer };
