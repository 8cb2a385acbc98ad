import { LRUCache } from "lru-cache";
import { linkAbort, sharedAbort, sleep } from "../../../deploy/runtime/time/abort.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import type {
  CountTokensRequest,
  GenerateRequest,
  GenerateResponse,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  Capability,
  Modality,
  type ModelDescription,
  ModelState,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Backend, BackendDescription, BackendLoad } from "../../backend.ts";
import { keepMs } from "../../conversation/cache-breakpoints.ts";
import { ANY_ORDER } from "../../conversation/history/model-history.ts";
import { EngineError, throwIfLeft } from "../../errors.ts";
import type { OutputMarkers } from "../../output-parser/markers.ts";
import type { HeldPrefixes } from "../../prefixes/held-prefixes.ts";
import { withGenericCalls } from "../../profiles/profile.ts";
import { GrammarCache } from "../grammar-cache.ts";
import { LoopSlices } from "../loop-slices.ts";
import { modelIdentity, VOCABULARY_TEXT } from "../model-revision.ts";
import type { PrefillSpeed } from "../prefill-speed.ts";
import { DIALECTS } from "./engines/dialects.ts";
import type { Ask, EngineDialect } from "./engines/engine-dialect.ts";
import { generate } from "./generation/generation.ts";
import { asking, type GenerationParts, reading, readMarkup } from "./generation/generation-parts.ts";
import { HandOvers } from "./hand-over/hand-overs.ts";
import { EngineHttp } from "./http/engine-http.ts";
import { EngineCache } from "./kv-events/engine-cache.ts";
import { kvSource } from "./kv-events/kv-source.ts";
import { readModelMarks } from "./marks/model-marks.ts";
import type { OpenAiCompatibleOptions } from "./options.ts";
import { askEngine, type ProbeResult, probe, probeHandOver, showsTools } from "./probe/probe.ts";
import { OwnPrompts } from "./prompt/own-prompts.ts";
import { RenderingCheck } from "./prompt/rendering-check.ts";
import { CacheSessions } from "./request/cache-sessions.ts";
import { EngineSlots } from "./request/engine-slots.ts";
import { type RequestSettings, sessionId, toChatPrompt } from "./request/request.ts";
import { type EngineFacts, readEngineFacts } from "./watch/engine-facts.ts";
import { EngineWatch } from "./watch/engine-watch.ts";
import { LastTurns } from "./watch/last-turns.ts";
import { PromptLedger } from "./watch/prompt-ledger.ts";

/** The interval of health checks while the engine starts, in milliseconds. */
const HEALTH_INTERVAL_MS = 500;
const HEALTH_TIMEOUT_MS = 5_000;
const CLOSE_SESSION_TIMEOUT_MS = 5_000;

const MAX_TAILS = 256;

type Running = { readonly parts: GenerationParts; readonly found: ProbeResult };

/** A backend that uses another engine beside this node: vLLM, SGLang or llama-server. The node is its only client. */
export class OpenAiCompatibleBackend implements Backend {
  readonly #options: OpenAiCompatibleOptions;
  readonly #dialect: EngineDialect;
  readonly #http: EngineHttp;
  readonly #clock: Clock;
  readonly #watch: EngineWatch;
  readonly #ledger: PromptLedger;
  readonly prefillSpeed: PrefillSpeed;
  readonly promptMegabytes: number;
  readonly #sessions: CacheSessions;
  readonly #cache: EngineCache | undefined;
  readonly #closing = sharedAbort();
  #running: Running | undefined;
  #busy = 0;
  #notes: string[] = [];
  #check: RenderingCheck | undefined;
  onNote?: (note: string) => void;

  constructor(options: OpenAiCompatibleOptions, clock: Clock = systemClock) {
    this.#options = options;
    this.promptMegabytes = options.tokenCacheMegabytes;
    this.#dialect = DIALECTS[options.dialect];
    this.#http = new EngineHttp(options.baseUrl, options.apiKey);
    this.#clock = clock;
    this.#watch = new EngineWatch(this.#http, this.#dialect, options, clock);
    this.#ledger = new PromptLedger(() => clock.nowMs());
    this.prefillSpeed = this.#ledger.speed;
    this.#sessions = new CacheSessions(clock, (id) => this.#closeSession(id));
    const kvTokens = () => ({
      used: this.#watch.load?.kvTokensUsed ?? 0,
      total: this.#watch.load?.kvTokensTotal ?? 0,
    });
    this.#cache = this.#dialect.kvPublishers && new EngineCache(clock, kvTokens);
  }

  /** The engine's cached prefixes, announced once its KV events were found and tested. */
  get prefixes(): HeldPrefixes | undefined {
    return this.#cache?.held;
  }

  /**
   * Waits for the engine to come up, then probes it. Throws `EngineError` ENGINE_DOWN if it does not come up in time,
   * does not serve the model, or does not separate reasoning, tool calls and text.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { nodeId, profile, images = profile.images, priorities, sharedCache, servedModel: wanted } = this.#options;
    await this.#waitForEngine(signal);
    const facts = await readEngineFacts(this.#http, this.#dialect, wanted, signal);
    const { marks, note } = await readModelMarks(this.#http, this.#dialect, profile, this.#options.spellings, signal);
    this.#notes = note === undefined ? [] : [note];
    const ask = asking(this.#http, this.#options.countTimeoutMs, signal);
    const named: RequestSettings = {
      dialect: this.#dialect,
      servedModel: facts.servedModel,
      ...{ profile, turns: profile, marks, images, priorities, sharedCache },
      defaults: {},
    };
    const settings = (await showsTools(ask, named)) ? named : { ...named, profile: withGenericCalls(profile) };
    if (settings !== named && !profile.toolsAsText)
      this.#notes.push(
        "the profile has no calls that the node reads: tools, calls and results are written as text, in a generic form",
      );
    const markup = await readMarkup(ask, settings);
    const parts: GenerationParts = {
      nodeId,
      http: this.#http,
      watch: this.#watch,
      settings,
      facts,
      markup,
      ...(await this.#identity(facts, settings, markup.markers, ask)),
      grammars: new GrammarCache(async (text) => text, this.#options.work, this.#clock),
      holdsForms: true,
      tails: new LRUCache({ max: MAX_TAILS }),
      slices: new LoopSlices(),
      silenceMs: this.#options.silenceTimeoutMs,
      countTimeoutMs: this.#options.countTimeoutMs,
      onFault: this.#options.onFault ?? (() => {}),
      cache: await this.#openCache(signal),
      own: undefined,
      slots: facts.slots > 0 ? new EngineSlots(facts.slots, () => this.#clock.nowMs()) : undefined,
      handOvers: undefined,
      ledger: this.#ledger,
      lastTurns: new LastTurns(),
      nowMs: () => this.#clock.nowMs(),
    };
    this.#watch.start();
    const found = await probe(parts, signal);
    const { turns, images: takesImages, defaults = {}, holdsForms } = found;
    if (!holdsForms)
      this.#notes.push("the engine takes no grammar of calls: those that are not strict may be malformed");
    if (!found.defaults)
      this.#notes.push(
        "the model's sampling defaults are not known, as the node cannot read generation_config.json of the engine's model path: the engine's own apply where a request has none",
      );
    const tried = { ...settings, turns, images: takesImages, defaults };
    const own = await this.#ownPrompts({ ...parts, settings: tried }, ask, signal);
    const events = await this.#withEvents({ parts: { ...parts, settings: tried, holdsForms, own }, found }, signal);
    this.#running = await this.#withHandOvers(events, signal);
  }

  async #identity({ weights }: EngineFacts, settings: RequestSettings, markers: OutputMarkers, ask: Ask) {
    const { servedModel: model, dialect } = settings;
    return modelIdentity(this.#options.weights ?? weights, {
      markers,
      vocabularyTokens: [...(await dialect.tokenize(ask, model, VOCABULARY_TEXT))],
      promptOf: async (conversation) => {
        const prompt = toChatPrompt(conversation, { ...settings, turns: ANY_ORDER });
        return dialect.detokenize(ask, model, (await dialect.render(ask, prompt)).tokens);
      },
    });
  }

  /** Returns what renders prompts in the node; undefined where there are no files for it, or prompts would differ. */
  async #ownPrompts(
    { settings, markup, slices }: GenerationParts,
    ask: Ask,
    signal: AbortSignal,
  ): Promise<OwnPrompts | undefined> {
    const { files, work, tokenCacheMegabytes: cacheMegabytes } = this.#options;
    const byCode = this.#dialect.rendersByCode && settings.profile.renderer !== undefined;
    if (!files || (files.template === "" && !byCode)) return undefined;
    let own: OwnPrompts;
    try {
      const { markers } = markup;
      own = new OwnPrompts({ files, settings, markers, work, slices, clock: this.#clock, cacheMegabytes });
    } catch {
      this.#notes.push("prompts are rendered by the engine: the template beside tokenizerFile cannot be run");
      return undefined;
    }
    this.#check = new RenderingCheck(own, settings, Math.random);
    const why = await this.#check.start(ask, signal);
    if (why !== undefined) this.#notes.push(why);
    return own;
  }

  /** Compares the prompt of an answer with the engine's, where it is drawn. Never rejects. */
  async #compare(request: GenerateRequest, { slices, countTimeoutMs }: GenerationParts): Promise<void> {
    const { signal } = this.#closing;
    const ask = asking(this.#http, countTimeoutMs, signal, () => slices.nextUnlessLeft("", signal));
    const why = await this.#check?.answered(request, ask, signal).catch(() => undefined);
    if (why !== undefined) this.onNote?.(why);
  }

  startNotes(): readonly string[] {
    return this.#notes;
  }

  /** Returns the engine and its models; the engine's own facts are known once `start` has resolved. */
  describe(): BackendDescription {
    return {
      engineKind: this.#dialect.engineKind,
      engineVersion: this.#running?.parts.facts.version ?? "",
      samplingDefaults: this.#running?.found.defaults,
      models: this.#options.models.map((id) => this.#describeModel(id)),
    };
  }

  /** A slot is busy once the engine has started its generation, as far as the engine reports it. */
  load(): BackendLoad {
    const { steps, load } = this.#watch;
    const own = this.#running?.parts.own;
    const waiting = Math.min(load?.waiting ?? 0, this.#busy);
    return {
      slots: this.#options.slots,
      busySlots: this.#busy - waiting,
      waiting,
      queuedUncachedTokens: this.#ledger.unreadTokens,
      kvUse: load?.kvUse,
      kvTokensUsed: load?.kvTokensUsed,
      kvTokensTotal: load?.kvTokensTotal,
      observedRetentionSeconds: this.#cache?.retentionSeconds,
      ...(own && { ownRendering: own.isOn, promptTokens: { known: own.tokensFound, tokenized: own.tokensMade } }),
      steps,
    };
  }

  /** Runs one generation on the engine. Throws `EngineError`: QUEUE_FULL if all slots are taken. */
  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void> {
    const { parts } = this.#ready();
    if (this.#busy >= this.#options.slots) throw new EngineError("QUEUE_FULL", "All slots are taken.");
    this.#busy += 1;
    const link = linkAbort(signal, this.#closing.signal);
    try {
      yield* generate(parts, request, link.signal);
      void this.#compare(request, parts);
    } finally {
      link.release();
      this.#busy -= 1;
      const session = this.#dialect.paths.closeSession === undefined ? undefined : sessionId(request);
      if (session !== undefined) this.#sessions.used(session, keepMs(request));
    }
  }

  async countTokens(request: CountTokensRequest, signal: AbortSignal): Promise<number> {
    const { settings, countTimeoutMs, slices, own } = this.#ready().parts;
    const nextSlice = () => slices.nextUnlessLeft(request.tenant, signal);
    const ask = asking(this.#http, countTimeoutMs, signal, nextSlice);
    const counted = await own?.render(request, request.cache?.isolationSalt ?? "", ask, {
      tenant: request.tenant,
      signal,
    });
    if (counted) return counted.tokens.length;
    return (await this.#dialect.render(ask, toChatPrompt(request, settings))).tokens.length;
  }

  /** Fails running generations with ENGINE_DOWN, and stops polling the engine. */
  async close(): Promise<void> {
    this.#running = undefined;
    this.#watch.close();
    this.#cache?.close();
    this.#sessions.clear();
    this.#closing.abort(new EngineError("ENGINE_DOWN", "The node is stopping."));
  }

  /** Connects to the engine's KV events; undefined if it publishes none, or if they cannot be read. */
  async #openCache(signal: AbortSignal): Promise<EngineCache | undefined> {
    const { kvPublishers } = this.#dialect;
    if (!kvPublishers) return undefined;
    const publishers = await kvPublishers(reading(this.#http, signal));
    const { hostname } = new URL(this.#options.baseUrl);
    const sources = publishers.map(({ config, rank }) => kvSource(config, hostname, rank));
    const found = sources.filter((source) => source !== undefined);
    if (found.length === 0 || found.length < sources.length) return undefined;
    const why = await this.#cache?.open(found, this.#dialect);
    if (why === undefined) return this.#cache;
    this.#notes.push(why);
    return undefined;
  }

  /** Tests the engine's KV events. If they cannot be used, the node works as if there were none. */
  async #withEvents({ parts, found }: Running, signal: AbortSignal): Promise<Running> {
    const { cache } = parts;
    if (!cache) return { parts, found };
    const why = await cache.confirm(parts.facts.contextWindow, (request) => askEngine(parts, request, signal), signal);
    if (why === undefined) {
      const capabilities = [...found.capabilities, Capability.PREFIX_EVENTS];
      return { parts, found: { ...found, capabilities } };
    }
    this.#notes.push(why);
    return { parts: { ...parts, cache: undefined }, found };
  }

  /** Finds out whether the engine keeps a prompt for another one: it then takes those of others, too. */
  async #withHandOvers({ parts, found }: Running, signal: AbortSignal): Promise<Running> {
    const { handOver: form } = this.#dialect;
    if (!form) return { parts, found };
    const facts = [this.#dialect.name, parts.facts.version, parts.revision];
    const onShut = () =>
      this.onNote?.(
        "a hand-over has brought the cache of another prompt: none is taken any more; look at the engines' leases, clocks and network, then restart the node",
      );
    const tried = { ...parts, handOvers: new HandOvers(form, facts, onShut) };
    if (!(await probeHandOver(tried, signal))) return { parts, found };
    return { parts: tried, found: { ...found, capabilities: [...found.capabilities, Capability.HAND_OVER] } };
  }

  #ready(): Running {
    if (!this.#running) throw new EngineError("MODEL_LOADING", "The engine is not up yet.");
    return this.#running;
  }

  #closeSession(id: string): void {
    const { closeSession: path } = this.#dialect.paths;
    if (path === undefined) return;
    const body = JSON.stringify({ session_id: id });
    const call = { path, body, timeoutMs: CLOSE_SESSION_TIMEOUT_MS };
    // Best effort: nothing depends on the result.
    void this.#http.fetch(call, this.#closing.signal).catch(() => {});
  }

  #describeModel(id: string): ModelDescription {
    const running = this.#running;
    const contextWindow = running?.parts.facts.contextWindow ?? 0;
    return {
      id,
      revision: running?.parts.revision ?? "",
      contextWindow,
      maxOutputTokens: Math.max(0, contextWindow - 1),
      kvTokenCapacity: this.#watch.load?.kvTokensTotal ?? 0,
      kvBlockTokens: 0,
      maxConcurrentRequests: this.#options.slots,
      inputModalities: running?.found.images ? [Modality.TEXT, Modality.IMAGE] : [Modality.TEXT],
      capabilities: running?.found.capabilities ?? [],
      state: running ? ModelState.READY : ModelState.LOADING,
      maxCacheTtl: undefined,
      longestTokenBytes: 0,
      keptConversations: running?.parts.facts.slots ?? 0,
      dataParallelRanks: running?.parts.cache?.ranks ?? 0,
      handOverGroup: running?.parts.handOvers?.group ?? "",
    };
  }

  async #waitForEngine(signal: AbortSignal): Promise<void> {
    const { startTimeoutMs } = this.#options;
    const until = this.#clock.nowMs() + startTimeoutMs;
    const call = { path: this.#dialect.paths.health, timeoutMs: HEALTH_TIMEOUT_MS };
    for (;;) {
      const isUp = await this.#http.fetch(call, signal).then(
        ({ status }) => status === 200,
        (error: unknown) => {
          if (signal.aborted) throw error;
          return false;
        },
      );
      if (isUp) return;
      if (this.#clock.nowMs() >= until) {
        throw new EngineError("ENGINE_DOWN", `The engine did not come up within ${startTimeoutMs} ms.`);
      }
      await sleep(this.#clock, HEALTH_INTERVAL_MS, signal);
      throwIfLeft(signal);
    }
  }
}
