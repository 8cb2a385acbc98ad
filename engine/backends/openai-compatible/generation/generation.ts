import { randomBytes } from "node:crypto";
import { linkAbort } from "../../../../deploy/runtime/time/abort.ts";
import { toDuration } from "../../../../deploy/runtime/time/clock.ts";
import type {
  Event,
  FinishReason,
  GenerateRequest,
  GenerateResponse,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { prefixMarks } from "../../../prefixes/prefix-marks.ts";
import { SignsOfLife } from "../../signs-of-life.ts";
import { finished, progress, started, stepOf, timings } from "../../stream-events.ts";
import type { TokenChunk, TokenRequest, TokenSampling } from "../engines/engine-dialect.ts";
import { agree, digestOfPrompt, type HandOver } from "../hand-over/hand-over.ts";
import { HAND_OVER_TTL_MS, type HandOvers } from "../hand-over/hand-overs.ts";
import { type EngineCall, readBytes } from "../http/engine-http.ts";
import { EventStream, type StreamStep } from "../http/event-stream.ts";
import { faultOfReply, toEngineFault } from "../http/http-error.ts";
import { type JsonFields, parseFields } from "../http/json-fields.ts";
import { type JsonValue, toJsonBytes, toJsonText } from "../http/raw-json.ts";
import { TokenList } from "../http/token-list.ts";
import { pickRank } from "../kv-events/rank-pick.ts";
import type { HeldSlot } from "../request/engine-slots.ts";
import { enginePriority, sessionId } from "../request/request.ts";
import type { LedgerPrompt } from "../watch/prompt-ledger.ts";
import { asking, type GenerationParts } from "./generation-parts.ts";
import { CHARACTER_TOKENS, type PreparedGeneration, prepareGeneration } from "./prepared-generation.ts";

/** The number of likely first tokens by which the engines on both sides of a hand-over are compared. */
const CANDIDATES = 8;

/** The longest time for reading the text of an error reply, in milliseconds. */
const REFUSAL_TIMEOUT_MS = 5_000;

/** How the engine's part of an answer ended: `engine` by the engine, `node` by a stop, a call or the JSON's end. */
type LegEnd = { readonly by: "engine" | "node" | "reasoning"; readonly cut: boolean };

/**
 * Runs one generation on the engine as canonical events: the engine renders the prompt to tokens and generates from
 * tokens; the node finds blocks, calls and stop strings in the text. Leaving the iteration closes the connection, which
 * stops the engine. Throws `EngineError`; an answer that breaks off never ends cleanly.
 */
export async function* generate(
  parts: GenerationParts,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerateResponse, void, void> {
  const link = linkAbort(signal);
  const { watch } = parts;
  const arrivedMs = parts.nowMs();
  let reading: LedgerPrompt | undefined;
  let held: HeldSlot | undefined;
  const life = new SignsOfLife(() => progress(reading?.position ?? 0, reading?.readTokens ?? 0, watch.moves));
  const unwatch = watch.onMove(() => life.moved());
  try {
    const order = { tenant: request.tenant, signal: link.signal, onMove: () => life.moved() };
    const prepared = yield* life.during(prepareGeneration(parts, request, order));
    const sent = sentGeneration(parts, request, prepared, arrivedMs);
    reading = sent.reading;
    held = sent.held;
    yield* new Generation(parts, request, sent, life, link.signal).run();
  } finally {
    unwatch();
    reading?.gone();
    held?.release();
    link.release();
    // A consumer that stops iterating also stops the engine, at any point.
    link.abort(new EngineError("CANCELLED", "The caller has left."));
  }
}

type SentGeneration = PreparedGeneration & {
  /** What another node has read of the prompt, for the engine; undefined where this one reads it. */
  readonly handOver: HandOver | undefined;
  readonly reading: LedgerPrompt;
  readonly held: HeldSlot | undefined;
  /** Records what the engine found cached of the prompt. */
  readonly learn: (foundTokens: number) => void;
};

/**
 * Adds a prompt to the ledger, with what the node knows of the engine's cache. Of an engine with several ranks, picks the
 * one that gets all calls of the answer.
 */
function sentGeneration(
  { cache, ledger, lastTurns, slots, handOvers, nowMs }: GenerationParts,
  request: GenerateRequest,
  prepared: PreparedGeneration,
  arrivedMs: number,
): SentGeneration {
  const { prompt, given, salt } = prepared;
  const agoMs = nowMs() - arrivedMs;
  const hasHandOver = request.handOver.length > 0 && given.length === 0;
  const handOver = hasHandOver ? handOvers?.taken(request, promptOf(prepared), agoMs) : undefined;
  const marks = prefixMarks(request);
  const tokens = prompt.tokens.length + given.length;
  const followed = cache?.follow({ ...request, marks, salt, tokens: prompt.tokens });
  const ranks = followed?.ranks ?? [];
  const loads = ranks.map((cached, rank) => ({ ...ledger.loadOf(rank), cached }));
  const rank = ranks.length > 1 ? pickRank(loads, tokens) : undefined;
  const heldTokens = followed?.isTrusted ? ranks[rank ?? 0]?.tokens : undefined;
  const cachedTokens = handOver ? tokens : (heldTokens ?? lastTurns.cachedTokens(salt, marks) ?? 0);
  const reading = ledger.sent({ tokens, cachedTokens: Math.min(tokens, cachedTokens), rank });
  const learn = (foundTokens: number) => {
    // The engine reports what the other one found in its own cache.
    if (handOver) return;
    lastTurns.answered(salt, marks, prompt.tokens.length, foundTokens);
    // The tokens of a begun answer may be cached, too.
    if (given.length === 0) followed?.answered(foundTokens, reading);
  };
  return { ...prepared, handOver, reading, learn, held: slots?.take(marks) };
}

/** Returns the digest of a prompt by which a hand-over of it is known. */
function promptOf({ prompt: { tokens, features }, salt }: PreparedGeneration): string {
  return digestOfPrompt(tokens, salt, features === undefined ? "" : toJsonText(features));
}

const REASONED: LegEnd = { by: "reasoning", cut: false };

/** One answer, over one or several calls of the engine: closing the reasoning begins another. */
class Generation {
  readonly #parts: GenerationParts;
  readonly #request: GenerateRequest;
  readonly #prepared: SentGeneration;
  readonly #life: SignsOfLife;
  readonly #signal: AbortSignal;
  readonly #tokens: number[];
  #grammar: string | undefined;
  #isStarted = false;
  #firstMs: number | undefined;
  #cachedInputTokens: number | undefined;
  /** The hand-over of a call that is still to be made, or whose first token is still to come. */
  #handOver: HandOver | undefined;
  /** The bytes for another node; undefined where none were asked for, or made. */
  #made: Buffer | undefined;

  constructor(
    parts: GenerationParts,
    request: GenerateRequest,
    prepared: SentGeneration,
    life: SignsOfLife,
    signal: AbortSignal,
  ) {
    this.#parts = parts;
    this.#request = request;
    this.#prepared = prepared;
    this.#life = life;
    this.#signal = signal;
    this.#tokens = [...prepared.given];
    this.#grammar = prepared.grammar;
    this.#handOver = prepared.handOver;
  }

  async *run(): AsyncGenerator<GenerateResponse, void, void> {
    const { answer, limit } = this.#prepared;
    let cut: FinishReason | undefined;
    if (this.#readsOnly) {
      // Engines generate at least one token.
      this.#grammar = undefined;
      const { handOvers } = this.#parts;
      if (handOvers && this.#request.makeHandOver) yield* this.#readForAnother(handOvers);
      else yield* this.#leg(1);
      yield this.#closing(cut);
      return;
    }
    while (!answer.isComplete) {
      const tokensLeft = limit.maxOutputTokens - answer.outputTokens;
      if (tokensLeft <= 0) {
        cut = limit.limitReason;
        break;
      }
      const end = answer.reasonedEnough ? REASONED : yield* this.#leg(tokensLeft);
      if (end.by === "reasoning") yield await this.#closeReasoning();
      else {
        if (end.cut) cut = limit.limitReason;
        break;
      }
    }
    yield this.#closing(cut);
  }

  /** Whether only the prompt is to be read. */
  get #readsOnly(): boolean {
    return this.#prepared.limit.maxOutputTokens === 0;
  }

  /** Writes the tokens that close the reasoning, up to the answer's limit. */
  async #closeReasoning(): Promise<GenerateResponse> {
    const tokensLeft = Math.max(0, this.#prepared.limit.maxOutputTokens - this.#prepared.answer.outputTokens);
    const { markup, settings } = this.#parts;
    const { beforeClose = "", close = "", afterClose = "" } = settings.profile.reasoning ?? {};
    const written = markup.reasoningEnd.slice(0, tokensLeft);
    this.#tokens.push(...written);
    const events = this.#prepared.answer.push(written.length, beforeClose + close + afterClose);
    this.#grammar = await this.#prepared.behindReasoning();
    return this.#step(events, this.#prepared.continues ? written : []);
  }

  /** Has the engine read the prompt, and keep it for another one. */
  async *#readForAnother(handOvers: HandOvers): AsyncGenerator<GenerateResponse, void, void> {
    const { http, settings, silenceMs, watch } = this.#parts;
    const request = { ...this.#body(1), topLogprobs: CANDIDATES };
    const body = await this.#written(request, handOvers.rules.askBody(request));
    const call = { path: settings.dialect.paths.generate, timeoutMs: silenceMs, ...body };
    const reply = yield* this.#life.during(watch.owed(http.fetch(call, this.#signal)));
    watch.stepped();
    if (reply.status !== 200) throw toEngineFault(faultOfReply(reply.status, reply.text));
    const said = parseFields(reply.text) ?? {};
    const chunk = readEvent(reply.text, settings.dialect.chunkReader());
    this.#cachedInputTokens = chunk.cachedInputTokens;
    this.#firstMs = this.#parts.nowMs();
    this.#prepared.reading.read();
    this.#made = handOvers.made(promptOf(this.#prepared), said);
  }

  /** Has the engine generate up to `tokensLeft` tokens behind those so far. */
  async *#leg(tokensLeft: number): AsyncGenerator<GenerateResponse, LegEnd, void> {
    const { watch, settings } = this.#parts;
    const stream = yield* this.#life.during(watch.owed(this.#open(tokensLeft)));
    const read = this.#provenBy(settings.dialect.chunkReader());
    let end: LegEnd | undefined;
    try {
      for (;;) {
        const piece = watch.owed(end ? restOf(stream) : stream.next());
        const { data, done } = this.#firstMs === undefined ? yield* this.#life.during(piece) : await piece;
        if (data.length > 0) watch.stepped();
        const events: Event[] = [];
        const tokens: number[] = [];
        for (const datum of data) {
          const whole = readEvent(datum, read);
          this.#cachedInputTokens ??= whole.cachedInputTokens;
          if (end) continue;
          const reasoningLeft = this.#prepared.answer.reasoningTokensLeft;
          const chunk =
            !this.#readsOnly && whole.tokens.length > reasoningLeft
              ? await this.#shortened(whole, reasoningLeft)
              : whole;
          if (chunk.prefilledTokens !== undefined && this.#firstMs === undefined) {
            this.#prepared.reading.reported(chunk.prefilledTokens);
            events.push(progress(0, chunk.prefilledTokens, watch.moves));
          }
          events.push(...this.#take(chunk));
          if (this.#prepared.continues && !this.#readsOnly) tokens.push(...chunk.tokens);
          end = this.#endOf(chunk);
        }
        if (events.length + tokens.length > 0) yield this.#step(events, tokens);
        // The engine's counts come behind its last token.
        if (end && (end.by !== "engine" || done || this.#cachedInputTokens !== undefined)) return end;
        if (done) throw new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's answer has no end.");
      }
    } catch (error) {
      // An engine that may not read the prompt itself fails where it cannot take it.
      throw this.#handOver && error instanceof EngineError && error.reason === "ENGINE_ERROR" ? handOverLost() : error;
    } finally {
      stream.close();
    }
  }

  /** Returns a reader that compares the first token with what the engine expected that has read the prompt. */
  #provenBy(read: (event: JsonFields) => TokenChunk): (event: JsonFields) => TokenChunk {
    const { handOvers } = this.#parts;
    if (!this.#handOver || !handOvers) return read;
    return (event) => {
      const chunk = read(event);
      const handOver = this.#handOver;
      const hasToken = chunk.tokens.length > 0 || (chunk.finish !== undefined && chunk.finish !== "error");
      if (!handOver || !hasToken || chunk.fault) return chunk;
      if (!agree(handOver.first, handOvers.rules.candidates(event), this.#grammar !== undefined)) {
        handOvers.wasForeign(this.#prepared.salt);
        throw handOverLost();
      }
      this.#handOver = undefined;
      return chunk;
    };
  }

  /** Drops the tokens beyond the `reasoningLeft` of the reasoning budget: engines join several tokens in one event. */
  async #shortened(chunk: TokenChunk, reasoningLeft: number): Promise<TokenChunk> {
    const { http, countTimeoutMs, settings } = this.#parts;
    const ask = asking(http, countTimeoutMs, this.#signal);
    const textOf = (tokens: readonly number[]) => settings.dialect.detokenize(ask, settings.servedModel, tokens);
    const before = this.#tokens.slice(-CHARACTER_TOKENS);
    const tokens = chunk.tokens.slice(0, reasoningLeft);
    const shown = before.length === 0 ? "" : await textOf(before);
    const text = (await textOf([...before, ...tokens])).slice(shown.length);
    return { ...chunk, tokens, text, finish: undefined };
  }

  #take({ tokens, text, logprobs }: TokenChunk): readonly Event[] {
    if (tokens.length > 0) {
      this.#firstMs ??= this.#parts.nowMs();
      this.#prepared.reading.read();
      if (this.#readsOnly) return [];
      this.#tokens.push(...tokens);
    }
    const { answer, sampling } = this.#prepared;
    const most = sampling.topLogprobs;
    // Those of a handed-over prompt are for the node itself.
    if (logprobs.length === 0 || most === undefined) return answer.push(tokens.length, text);
    const asked = logprobs.map((one) => ({ ...one, alternatives: one.alternatives.slice(0, most) }));
    return answer.push(tokens.length, text, asked);
  }

  #endOf({ finish }: TokenChunk): LegEnd | undefined {
    const { answer } = this.#prepared;
    if (this.#readsOnly && finish === undefined) return undefined;
    if (answer.isComplete) return { by: "node", cut: false };
    if (finish === "abort") throw new EngineError("ENGINE_ABORTED", "The engine gave the request up.");
    if (finish === "error")
      throw new EngineError("ENGINE_ERROR", "The engine had an error in the middle of the answer.");
    // A model that ends inside its reasoning owes the answer that the grammar demands.
    const owes = finish === "stop" && answer.inReasoning && this.#grammar !== undefined;
    if (finish !== undefined && !owes) return { by: "engine", cut: finish === "length" };
    return owes || answer.reasonedEnough ? REASONED : undefined;
  }

  async #open(tokensLeft: number): Promise<EventStream> {
    const { http, settings, silenceMs } = this.#parts;
    const { dialect } = settings;
    const request = this.#body(tokensLeft);
    const body = await this.#written(request, dialect.generateBody(request));
    const call = { path: dialect.paths.generate, timeoutMs: silenceMs, ...body };
    const { status, stream } = await http.open(call, this.#signal);
    if (status === 200) return new EventStream(stream, silenceMs, this.#signal);
    // A status is an answer, even if its text breaks off or never arrives.
    stream.setTimeout(REFUSAL_TIMEOUT_MS, () => stream.destroy());
    const bytes = await readBytes(stream).catch(() => Buffer.alloc(0));
    throw toEngineFault(faultOfReply(status, bytes.toString("utf8")));
  }

  /** Resolves to a call with the body of a request, which is written in turns. */
  async #written(request: TokenRequest, body: JsonValue): Promise<Omit<EngineCall, "path" | "timeoutMs">> {
    const { settings, slices } = this.#parts;
    const nextSlice = () => slices.nextUnlessLeft(this.#request.tenant, this.#signal);
    return {
      body: await toJsonBytes(body, nextSlice),
      headers: settings.dialect.generateHeaders?.(request),
      onSent: () => this.#life.moved(),
    };
  }

  #body(maxTokens: number): TokenRequest {
    const { markup, settings } = this.#parts;
    const { prompt, sampling, salt } = this.#prepared;
    const { sharedCache } = settings;
    const handOver = this.#handOver?.engine;
    return {
      ...sampling,
      topLogprobs: handOver ? Math.max(CANDIDATES, sampling.topLogprobs ?? 0) : sampling.topLogprobs,
      handOver,
      logitBias: biasBehind(sampling, this.#tokens),
      model: settings.servedModel,
      tokens: new TokenList(prompt.tokens, [...this.#tokens]),
      features: prompt.features,
      maxTokens,
      minOutputTokens: leastBehind(sampling, this.#tokens.length, maxTokens),
      grammar: this.#grammar,
      marks: markup.spellings,
      cacheSalt: salt,
      sharedCache,
      sessionId: sessionId(this.#request),
      priority: enginePriority(this.#request, settings),
      requestId: engineRequestId(this.#request),
      slot: this.#prepared.held?.place,
      rank: this.#prepared.reading.rank,
    };
  }

  /** Returns a response, with `started` and the replayed part of a continuation before its first. */
  #step(events: readonly Event[], tokens: readonly number[]): GenerateResponse {
    if (this.#isStarted) return stepOf(events, tokens);
    this.#isStarted = true;
    const { nodeId, revision: modelRevision } = this.#parts;
    const { prompt, promptDigest, given, replayed } = this.#prepared;
    const cached = this.#cachedInputTokens;
    const start = started({
      nodeId,
      modelRevision,
      ...(promptDigest !== undefined && { promptDigest }),
      // These engines do not report the sampling parameters that they use.
      sampling: undefined,
      inputTokens: prompt.tokens.length,
      ...(cached === undefined ? {} : { cachedInputTokens: Math.min(cached, prompt.tokens.length) }),
      ...(this.#made && { handOver: this.#made, handOverTtl: toDuration(HAND_OVER_TTL_MS) }),
    });
    return stepOf([start, ...replayed, ...events], [...given, ...tokens]);
  }

  /** Returns the number of tokens of the reasoning, its end included; events may hold tokens of both sides of it. */
  #reasoningTokens(): number {
    const { answer } = this.#prepared;
    if (answer.reasoningTokens === 0 || answer.inReasoning) return answer.reasoningTokens;
    return endOfMark(this.#tokens, this.#parts.markup.reasoningMark) ?? answer.reasoningTokens;
  }

  #closing(cut: FinishReason | undefined): GenerateResponse {
    const { answer, prompt, reading, learn, handOver } = this.#prepared;
    const endMs = this.#parts.nowMs();
    const firstMs = this.#firstMs ?? endMs;
    if (this.#cachedInputTokens !== undefined) learn(this.#cachedInputTokens);
    const held = answer.end(cut !== undefined);
    const last = finished({
      reason: answer.finishReason(cut),
      matchedStop: answer.matchedStop,
      usage: {
        inputTokens: prompt.tokens.length,
        cachedInputTokens: Math.min(this.#cachedInputTokens ?? 0, prompt.tokens.length),
        cacheWriteTokens: 0,
        outputTokens: answer.outputTokens,
        reasoningTokens: this.#reasoningTokens(),
      },
      // The time of a transfer shows no speed of prefill.
      timings: timings({
        ...(handOver ? { prefillMs: reading.times.prefillMs } : reading.times),
        decodeMs: endMs - firstMs,
      }),
    });
    return this.#step([...held, last], []);
  }
}

/** Returns the position behind the first occurrence of a mark; undefined if there is none. */
function endOfMark(tokens: readonly number[], mark: readonly number[]): number | undefined {
  const at =
    mark.length === 0 ? -1 : tokens.findIndex((_, from) => mark.every((one, offset) => tokens[from + offset] === one));
  return at < 0 ? undefined : at + mark.length;
}

function handOverLost(): EngineError {
  return new EngineError("HAND_OVER_LOST", "The prompt cannot be taken from the other node.");
}

/** Reads an event of the stream. Throws `EngineError` if it is no JSON, or reports a failure. */
function readEvent(datum: string, read: (event: JsonFields) => TokenChunk): TokenChunk {
  const fields = parseFields(datum);
  if (!fields) throw new EngineError("PROTOCOL_VIOLATION", "The engine sent something that is not JSON.");
  const chunk = read(fields);
  if (chunk.fault) throw toEngineFault(chunk.fault);
  return chunk;
}

/** Reads on behind the end of an answer, where a lost connection is no fault. */
function restOf(stream: EventStream): Promise<StreamStep> {
  return stream.next().catch(() => ({ data: [], done: true }));
}

/** Returns the least tokens of the rest of an answer of which `made` are there; undefined for none. */
function leastBehind({ minOutputTokens: least = 0 }: TokenSampling, made: number, most: number): number | undefined {
  return least > made ? Math.min(least - made, most) : undefined;
}

/**
 * Returns the bias of tokens behind others of the same answer: the engine counts them as prompt, so that its penalty of
 * frequencies does not include them.
 */
function biasBehind({ frequencyPenalty = 0, logitBias }: TokenSampling, tokens: readonly number[]) {
  if (frequencyPenalty === 0 || tokens.length === 0) return logitBias;
  const bias: Record<string, number> = { ...logitBias };
  for (const token of tokens) bias[token] = (bias[token] ?? 0) - frequencyPenalty;
  return bias;
}

/** Returns an id that differs from that of an earlier attempt, which the engine may still be running. */
function engineRequestId({ requestId }: GenerateRequest): string | undefined {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(requestId)) return undefined;
  return `${requestId}-${randomBytes(4).toString("hex")}`;
}
