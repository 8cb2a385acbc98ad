import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { CountTokensRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CallerWork } from "../../../caller-work/caller-work.ts";
import { type Conversation, TemplateRefusal } from "../../../conversation/chat-template.ts";
import { type PromptFormat, PromptRenderer, type RenderedPrompt } from "../../../conversation/prompt-renderer.ts";
import { SegmentCache, type Segments } from "../../../conversation/segment-cache.ts";
import { EngineError } from "../../../errors.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { planConversation } from "../../answer-plan.ts";
import { ConversationRendering, familyFormat } from "../../conversation-rendering.ts";
import type { LoopSlices } from "../../loop-slices.ts";
import type { Ask } from "../engines/engine-dialect.ts";
import type { RequestSettings } from "../request/request.ts";
import type { ModelFiles } from "./model-files.ts";

/** Known segments between unknown ones that are tokenized anew, so that a prompt takes few calls, in UTF-16 units. */
const BRIDGED_UNITS = 16_384;
/** The most text of one call: the engine's tokenizer serves all prompts by turns. */
const CALL_UNITS = 200_000;

/** The text whose segments are looked up at once, and the cost of a segment beside its text, in UTF-16 units: some 5 ms. */
const PORTION_UNITS = 1_000_000;
const SEGMENT_UNITS = 1_000;

/** A prompt as tokens. */
export type OwnPrompt = { readonly tokens: Uint32Array; readonly startsInReasoning: boolean };

export type OwnPromptsOptions = {
  readonly files: ModelFiles;
  readonly settings: RequestSettings;
  readonly markers: OutputMarkers;
  readonly work: Pick<CallerWork, "run">;
  readonly slices: LoopSlices;
  readonly clock: Clock;
  readonly cacheMegabytes: number;
};

type Segment = { readonly text: string; tokens: Uint32Array | undefined };

/**
 * Renders prompts in the node and has only their new segments tokenized by the engine: the tokens of a prompt are those
 * of its segments, each beginning with a control token, joined. Whether that holds for an engine is checked
 * (`rendering-check.ts`).
 */
export class OwnPrompts {
  readonly #settings: RequestSettings;
  readonly #rendering: ConversationRendering;
  readonly #segments: SegmentCache;
  readonly #slices: LoopSlices;
  /** The control tokens that begin segments, by their texts, longest first. */
  readonly #ids: ReadonlyMap<string, number>;
  readonly #cutIds: ReadonlySet<number>;
  readonly #longest: number;
  /** Whether prompts are rendered here; not once a prompt differs from the engine's. */
  isOn = true;

  /** `files` hold a template, or the family has a renderer. Throws if the template cannot be run. */
  constructor({ files, settings, markers, work, slices, clock, cacheMegabytes }: OwnPromptsOptions) {
    const { profile, dialect } = settings;
    const renderer = dialect.rendersByCode ? profile.renderer : undefined;
    const format: PromptFormat = {
      ...{ source: files.template, bosToken: files.bosToken, eosToken: files.eosToken },
      controlTokens: files.tokens.map(({ text, cuts }) => ({ text, stripsLeft: !cuts })),
      ...familyFormat(profile, markers),
      renderer,
      maxUnits: CALL_UNITS,
      cutsAtWords: false,
    };
    this.#settings = settings;
    this.#slices = slices;
    this.#rendering = new ConversationRendering(new PromptRenderer(format), format, work, slices);
    this.#segments = new SegmentCache(clock, cacheMegabytes);
    const cuts = files.tokens.filter((token) => token.cuts);
    this.#ids = new Map(cuts.map(({ text, id }) => [text, id]));
    this.#cutIds = new Set(this.#ids.values());
    this.#longest = Math.max(0, ...cuts.map(({ text }) => text.length));
  }

  get tokensFound(): number {
    return this.#segments.foundTokens;
  }

  get tokensMade(): number {
    return this.#segments.madeTokens;
  }

  /** Renders all prompts at the engine from now on. */
  switchOff(): void {
    this.isOn = false;
    this.#segments.clear();
  }

  /**
   * Resolves to a prompt; undefined for one that the engine has to render: with images, with a spelled control token of
   * one character, or one that template or tokenizer refuse, for the engine's own words. Throws `EngineError`.
   */
  async render(
    request: Pick<CountTokensRequest, "messages" | "tools" | "reasoning">,
    salt: string,
    ask: Ask,
    order: WorkOrder,
  ): Promise<OwnPrompt | undefined> {
    if (!this.isOn || hasImage(request)) return undefined;
    const { conversation } = planConversation(request, this.#settings.profile.thinking);
    const rendered = await this.#rendered(conversation, order);
    if (!rendered || rendered.plain.length > 0) return undefined;
    const tokens = await this.#tokens(rendered, this.#segments.of(order.tenant, salt), ask, order);
    return tokens && { tokens, startsInReasoning: rendered.startsInReasoning };
  }

  async #rendered(conversation: Conversation, order: WorkOrder): Promise<RenderedPrompt | undefined> {
    try {
      return await this.#rendering.render(conversation, order);
    } catch (error) {
      if (error instanceof TemplateRefusal || isOfPrompt(error)) return undefined;
      throw error;
    }
  }

  async #tokens(
    { text, ends }: RenderedPrompt,
    cache: Segments,
    ask: Ask,
    { tenant, signal }: WorkOrder,
  ): Promise<Uint32Array | undefined> {
    const segments: Segment[] = [];
    let from = 0;
    let portion = 0;
    for (const end of ends) {
      const segment = text.slice(from, end);
      segments.push({ text: segment, tokens: cache.get(segment, true) });
      portion += SEGMENT_UNITS + end - from;
      from = end;
      if (portion < PORTION_UNITS) continue;
      portion = 0;
      await this.#slices.nextUnlessLeft(tenant, signal);
    }
    for (const run of this.#runs(segments))
      if (!(await this.#tokenize(run, cache, ask).catch(unlessOfPrompt))) return undefined;
    const whole = new Uint32Array(segments.reduce((sum, { tokens }) => sum + (tokens?.length ?? 0), 0));
    let at = 0;
    for (const { tokens = NOTHING } of segments) {
      whole.set(tokens, at);
      at += tokens.length;
    }
    return whole;
  }

  /** Yields the runs of segments to tokenize, each in one call. */
  *#runs(segments: readonly Segment[]): Generator<readonly Segment[], void, void> {
    let run: Segment[] = [];
    /** The end of the last unknown segment in the run. */
    let needed = 0;
    let units = 0;
    let bridged = 0;
    const cut = () => run.slice(0, needed);
    for (const segment of segments) {
      const isUnknown = segment.tokens === undefined;
      // A spelling of a caller was cut there: the engine must not see it whole.
      const isApart = this.#idOf(segment.text) === undefined;
      if (run.length > 0 && (isApart || bridged > BRIDGED_UNITS || units + segment.text.length > CALL_UNITS)) {
        if (needed > 0) yield cut();
        [run, needed, units, bridged] = [[], 0, 0, 0];
      }
      if (run.length === 0 && !isUnknown) continue;
      run.push(segment);
      units += segment.text.length;
      bridged = isUnknown ? 0 : bridged + segment.text.length;
      if (isUnknown) needed = run.length;
    }
    if (needed > 0) yield cut();
  }

  /** Tokenizes a run in one call. Resolves to whether the tokens are those of its segments. */
  async #tokenize(run: readonly Segment[], cache: Segments, ask: Ask): Promise<boolean> {
    const { dialect, servedModel } = this.#settings;
    const tokens = await dialect.tokenize(ask, servedModel, run.map(({ text }) => text).join(""));
    const starts = run.slice(1).map(({ text }) => this.#idOf(text));
    const first = run[0] && this.#idOf(run[0].text) !== undefined ? 1 : 0;
    if (countOf(tokens, this.#cutIds) !== first + starts.length) return false;
    let from = 0;
    for (const [at, segment] of run.entries()) {
      const next = starts[at];
      const found = next === undefined ? tokens.length : tokens.indexOf(next, from + 1);
      if (found < 0) return false;
      segment.tokens = tokens.slice(from, found);
      cache.keep(segment.text, true, segment.tokens);
      from = found;
    }
    return true;
  }

  /** Returns the control token that a segment begins with; undefined for one that begins in another way. */
  #idOf(text: string): number | undefined {
    for (let length = Math.min(this.#longest, text.length); length > 0; length -= 1) {
      const id = this.#ids.get(text.slice(0, length));
      if (id !== undefined) return id;
    }
    return undefined;
  }
}

const NOTHING = new Uint32Array();

function countOf(tokens: Uint32Array, among: ReadonlySet<number>): number {
  let count = 0;
  for (const token of tokens) if (among.has(token)) count += 1;
  return count;
}

function hasImage({ messages }: Pick<CountTokensRequest, "messages">): boolean {
  return messages.some(({ parts }) =>
    parts.some(
      ({ kind }) =>
        kind?.$case === "image" ||
        (kind?.$case === "toolResult" && kind.value.content.some((part) => part.kind?.$case === "image")),
    ),
  );
}

/** Whether the prompt is at fault, of which the engine's own refusal says more. */
function isOfPrompt(error: unknown): boolean {
  return (
    error instanceof EngineError &&
    ["INVALID_REQUEST", "CONTEXT_WINDOW_EXCEEDED", "UNSUPPORTED_FEATURE"].includes(error.reason)
  );
}

function unlessOfPrompt(error: unknown): false {
  if (isOfPrompt(error)) return false;
  throw error;
}
