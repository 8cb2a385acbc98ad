import { type Event, FinishReason, type Usage } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { toEngineFault } from "../http/http-error.ts";
import { AnswerBlocks, type AnswerBlocksOptions } from "./answer-blocks.ts";
import type { Chunk, ChunkUsage } from "./chunk.ts";
import { ToolCalls, type ToolCallsOptions } from "./tool-calls.ts";

export type ChunkReaderOptions = AnswerBlocksOptions &
  ToolCallsOptions & {
    /** The text of the request that the engine repeats first, which is removed. */
    readonly begun: string;
    /** The caller's stop strings, whether the node or the engine matches them. */
    readonly callerStops: readonly string[];
    readonly maxOutputTokens: number | undefined;
    /** The context window in tokens; 0 if unknown. */
    readonly contextWindow: number;
    /** Receives the tokens of the prompt when the engine reports them; undefined if they are not needed. */
    readonly onPrompt?: ((tokens: readonly unknown[]) => void) | undefined;
  };

/** Reads one answer of an engine incrementally: chunks in, canonical events out, for any dialect. */
export class ChunkReader {
  readonly #options: ChunkReaderOptions;
  readonly #blocks: AnswerBlocks;
  readonly #calls: ToolCalls;
  #inCalls = false;
  /** The rest of the text that the engine repeats first. */
  #begun: string;
  #finishReason: string | undefined;
  #engineStop: string | undefined;
  #usage: ChunkUsage | undefined;
  /** The number of output tokens at the newest piece of reasoning. */
  #tokensAtReasoning = 0;

  constructor(options: ChunkReaderOptions) {
    this.#options = options;
    this.#begun = options.begun;
    this.#blocks = new AnswerBlocks(options);
    this.#calls = new ToolCalls(options, this.#blocks);
  }

  /** The counts so far; undefined before the first report. */
  get usage(): ChunkUsage | undefined {
    return this.#usage;
  }

  /** Whether the node has matched a stop string, so that the engine can be stopped. */
  get wantsNoMore(): boolean {
    return this.#blocks.matchedStop !== undefined;
  }

  /** Reads the next chunk. Throws `EngineError` if it reports a failure. */
  read(chunk: Chunk): readonly Event[] {
    if (chunk.fault) throw toEngineFault(chunk.fault);
    if (chunk.usage) this.#usage = merge(this.#usage, chunk.usage);
    if (chunk.promptTokens.length > 0) this.#options.onPrompt?.(chunk.promptTokens);
    // The chunk with the finish reason may also contain the last piece of the answer.
    if (!this.wantsNoMore) this.#readDelta(chunk);
    if (chunk.finishReason !== undefined) {
      this.#finishReason = chunk.finishReason;
      this.#engineStop = chunk.matchedStop;
    }
    return this.#blocks.take();
  }

  /**
   * Returns the remaining events and the finish reason of a complete stream. Throws `EngineError` if the engine gave
   * up, or reported no finish reason.
   */
  end(): {
    readonly events: readonly Event[];
    readonly reason: FinishReason;
    readonly matchedStop: string | undefined;
  } {
    const found = this.#blocks.matchedStop;
    const said = found === undefined ? this.#finishReason : "stop";
    if (said === undefined) throw new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's answer has no end.");
    if (said === "abort") throw new EngineError("ENGINE_ABORTED", "The engine gave the request up.");
    if (said === "error") throw new EngineError("ENGINE_ERROR", "The engine had an error in the middle of the answer.");
    const how = said === "length" || said === "content_filter" ? "cut" : "stop";
    this.#calls.end(how);
    this.#blocks.end(how);
    const matchedStop = found ?? this.#callersStop();
    return {
      events: this.#blocks.take(),
      matchedStop: how === "stop" ? matchedStop : undefined,
      ...this.#reason(said, matchedStop),
    };
  }

  /** Returns the counts that the engine measured; reasoning tokens extend at least to the last piece of reasoning. */
  finalUsage(): Usage {
    const { inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens, reasoningTokens } = this.#usage ?? NO_USAGE;
    return {
      inputTokens: inputTokens ?? 0,
      cachedInputTokens: Math.min(cachedInputTokens ?? 0, inputTokens ?? 0),
      cacheWriteTokens: cacheWriteTokens ?? 0,
      outputTokens: outputTokens ?? 0,
      reasoningTokens: Math.min(reasoningTokens || this.#tokensAtReasoning, outputTokens ?? 0),
    };
  }

  #readDelta({ reasoning, content: said, logprobs, calls, usage }: Chunk): void {
    const content = this.#withoutBegun(said);
    if ((reasoning !== "" || content.trim() !== "") && this.#inCalls) {
      this.#calls.end("stop");
      this.#inCalls = false;
    }
    if (reasoning !== "") this.#blocks.reasoning(reasoning);
    // White space between two calls is markup that the engine's parser has left.
    if (content !== "" && !this.#inCalls) this.#blocks.text(content, logprobs);
    if (this.#blocks.inReasoning) this.#tokensAtReasoning = usage?.outputTokens ?? this.#tokensAtReasoning;
    for (const call of calls) {
      this.#inCalls = true;
      this.#calls.push(call);
    }
  }

  /** Removes the text with which the caller has begun the answer, as far as the engine repeats it. */
  #withoutBegun(text: string): string {
    let same = 0;
    while (same < text.length && same < this.#begun.length && text[same] === this.#begun[same]) same += 1;
    this.#begun = same < text.length ? "" : this.#begun.slice(same);
    return text.slice(same);
  }

  /**
   * Returns the caller's stop string that the engine matched. Engines also stop at the model's own strings, which are
   * not reported to callers.
   */
  #callersStop(): string | undefined {
    const stop = this.#engineStop;
    return stop !== undefined && this.#options.callerStops.includes(stop) ? stop : undefined;
  }

  #reason(said: string, matchedStop: string | undefined): { readonly reason: FinishReason } {
    if (said === "length") return { reason: this.#lengthReason() };
    if (said === "content_filter") return { reason: FinishReason.CONTENT_FILTER };
    if (matchedStop !== undefined) return { reason: FinishReason.STOP_SEQUENCE };
    // A required named call ends with "stop"; a call whose arguments are not JSON is not a call.
    return { reason: this.#calls.wholeCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP };
  }

  #lengthReason(): FinishReason {
    const { maxOutputTokens, contextWindow } = this.#options;
    const { inputTokens, outputTokens } = this.finalUsage();
    const isFull = contextWindow > 0 && inputTokens + outputTokens >= contextWindow;
    const asked = maxOutputTokens !== undefined && outputTokens >= maxOutputTokens;
    return isFull && !asked ? FinishReason.CONTEXT_WINDOW : FinishReason.MAX_OUTPUT_TOKENS;
  }
}

const NO_USAGE: ChunkUsage = {
  inputTokens: undefined,
  cachedInputTokens: undefined,
  cacheWriteTokens: undefined,
  outputTokens: undefined,
  reasoningTokens: undefined,
};

/**
 * Merges counts: later values take precedence, and absent ones keep the earlier value, as running counts lack cached
 * tokens.
 */
function merge(before: ChunkUsage | undefined, now: ChunkUsage): ChunkUsage {
  return {
    inputTokens: now.inputTokens ?? before?.inputTokens,
    cachedInputTokens: now.cachedInputTokens ?? before?.cachedInputTokens,
    cacheWriteTokens: now.cacheWriteTokens ?? before?.cacheWriteTokens,
    outputTokens: now.outputTokens ?? before?.outputTokens,
    reasoningTokens: now.reasoningTokens ?? before?.reasoningTokens,
  };
}
