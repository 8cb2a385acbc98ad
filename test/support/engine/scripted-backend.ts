import { readFileSync } from "node:fs";
import { shownTools } from "../../../deploy/runtime/contract/shown-tools.ts";
import { linkAbort, sharedAbort, untilAborted } from "../../../deploy/runtime/time/abort.ts";
import type { Backend, BackendDescription, BackendLoad } from "../../../engine/backend.ts";
import { continuedAnswer } from "../../../engine/backends/request-plan.ts";
import { stepOf } from "../../../engine/backends/stream-events.ts";
import { callerLeft, EngineError, notOfThisAnswer } from "../../../engine/errors.ts";
import {
  type Continuation,
  type CountTokensRequest,
  Event,
  FinishReason,
  type GenerateRequest,
  type GenerateResponse,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import {
  Capability,
  EngineKind,
  Modality,
  ModelDescription,
  ModelState,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { blockEnd, delta, finished, started, textStart } from "../events/events.ts";

/** A step of a script: events of which each delta is one token, or events with explicit tokens. */
export type ScriptStep = readonly Event[] | GenerateResponse;

/**
 * The script of a request: steps of canonical events, in order. A script may wait between steps, and throw an
 * `EngineError`; `signal` is aborted when the caller has left. A continuation is played from the start, and its tokens
 * must match the script's.
 */
export type Script = (
  request: GenerateRequest,
  signal: AbortSignal,
) => AsyncIterable<ScriptStep> | Iterable<ScriptStep>;

export type ScriptedOptions = {
  readonly nodeId: string;
  readonly models: readonly string[];
  /** The number of generations that run at once, at least 1; further ones fail with QUEUE_FULL. */
  readonly slots: number;
  readonly script: Script;
  readonly revision?: string;
  readonly contextWindow?: number;
  readonly inputModalities?: readonly Modality[];
  /** Returns the number of tokens of a prompt. Default: the characters of all its texts, divided by four. */
  readonly countTokens?: (request: CountTokensRequest) => number;
  readonly keepsRequests?: boolean;
  /** What the node keeps of prompts. Default: 64. */
  readonly promptMegabytes?: number;
};

/** All capabilities of backends, as a script can play any events; the node adds its own. */
const ALL_CAPABILITIES = Object.values(Capability).filter(
  (value) => value !== Capability.UNSPECIFIED && value !== Capability.PROMPT_BASE,
);

/** A backend that plays scripts instead of running a model. It is the process border in the tests of the gateway. */
export class ScriptedBackend implements Backend {
  readonly #options: ScriptedOptions;
  readonly #revision: string;
  readonly #closing = sharedAbort();
  #busy = 0;
  readonly requests: GenerateRequest[] = [];
  readonly promptMegabytes: number;
  /** The digests of the prompts whose leases have ended. */
  readonly endedLeases: string[] = [];

  constructor(options: ScriptedOptions) {
    this.#options = options;
    this.promptMegabytes = options.promptMegabytes ?? 64;
    this.#revision = options.revision ?? "scripted";
  }

  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#closing.abort(new EngineError("ENGINE_DOWN", "The engine is stopping."));
  }

  describe(): BackendDescription {
    const contextWindow = this.#options.contextWindow ?? 262_144;
    const models = this.#options.models.map(
      (id): ModelDescription => ({
        ...ModelDescription.fromPartial({ id, revision: this.#revision, contextWindow, state: ModelState.READY }),
        maxOutputTokens: contextWindow,
        kvTokenCapacity: contextWindow * this.#options.slots,
        kvBlockTokens: 1,
        maxConcurrentRequests: this.#options.slots,
        inputModalities: [...(this.#options.inputModalities ?? [Modality.TEXT])],
        capabilities: ALL_CAPABILITIES,
      }),
    );
    return { engineKind: EngineKind.SCRIPTED, engineVersion: "1", models };
  }

  endLease(digest: string): void {
    this.endedLeases.push(digest);
  }

  load(): BackendLoad {
    return { slots: this.#options.slots, busySlots: this.#busy, waiting: 0 };
  }

  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void> {
    const continued = continuedAnswer(request, this.#revision);
    if (this.#closing.signal.aborted) throw callerLeft(this.#closing.signal);
    if (this.#busy >= this.#options.slots) throw new EngineError("QUEUE_FULL", "All slots are taken.");
    this.#busy += 1;
    if (this.#options.keepsRequests ?? true) this.requests.push(request);
    const link = linkAbort(signal, this.#closing.signal);
    const left = untilAborted(link.signal).then((): never => {
      throw callerLeft(link.signal);
    });
    left.catch(() => {});
    const script = this.#options.script(request, link.signal);
    const steps = Symbol.asyncIterator in script ? script[Symbol.asyncIterator]() : script[Symbol.iterator]();
    const played = new PlayedAnswer(continued);
    try {
      for (;;) {
        // A waiting script must not outlive its caller.
        const step = await Promise.race([left, steps.next()]);
        if (step.done) return;
        yield played.next(step.value);
      }
    } finally {
      link.release();
      this.#busy -= 1;
      // Not awaited: a generator that waits inside returns only after its own wait.
      void Promise.resolve(steps.return?.()).catch(() => {});
    }
  }

  async countTokens(request: CountTokensRequest): Promise<number> {
    return this.#options.countTokens?.(request) ?? roughTokens(request);
  }
}

/** The state of a played script: assigns tokens to steps without any, and checks a continuation against them. */
class PlayedAnswer {
  readonly #continued: Continuation | undefined;
  #tokens = 0;
  #calls = 0;

  constructor(continued: Continuation | undefined) {
    this.#continued = continued;
  }

  /** Returns the response of a step. The default token is the token's number in the answer, from 1. */
  next(step: ScriptStep): GenerateResponse {
    const { events, tokens } = "events" in step ? step : this.#counted(step);
    const given = this.#continued?.tokens ?? [];
    const before = this.#tokens;
    this.#tokens += tokens.length;
    if (tokens.some((token, at) => before + at < given.length && given[before + at] !== token)) throw notOfThisAnswer();
    if (this.#tokens < given.length && events.some(({ kind }) => kind?.$case === "finished")) throw notOfThisAnswer();
    return stepOf(this.#continued ? events.map((event) => this.#withCallId(event)) : events, tokens);
  }

  #counted(events: readonly Event[]): GenerateResponse {
    const deltas = events.filter(({ kind }) => kind?.$case === "blockDelta");
    return stepOf(
      events,
      deltas.map((_, at) => this.#tokens + at + 1),
    );
  }

  #withCallId(event: Event): Event {
    const { kind } = event;
    if (kind?.$case !== "blockStarted" || kind.value.block?.$case !== "toolCall") return event;
    const callId = this.#continued?.callIds[this.#calls++] ?? kind.value.block.value.callId;
    const block = { $case: "toolCall", value: { ...kind.value.block.value, callId } } as const;
    return { kind: { $case: "blockStarted", value: { ...kind.value, block } } };
  }
}

function roughTokens(request: CountTokensRequest): number {
  const length = (parts: readonly Part[]): number =>
    parts.reduce((sum, { kind }) => {
      if (kind?.$case === "text" || kind?.$case === "reasoning") return sum + kind.value.text.length;
      if (kind?.$case === "toolCall") return sum + kind.value.name.length + kind.value.argumentsJson.length;
      if (kind?.$case === "toolResult") return sum + length(kind.value.content);
      return sum;
    }, 0);
  const tools = shownTools(request.tools, request.messages).reduce(
    (sum, tool) => sum + tool.name.length + tool.parametersJsonSchema.length,
    0,
  );
  return Math.ceil((tools + request.messages.reduce((sum, message) => sum + length(message.parts), 0)) / 4) + 1;
}

/** Reads a file of JSON lines, each one event in protobuf's JSON notation. */
export function readTranscript(file: string): readonly Event[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line.trim() !== "").map((line) => Event.fromJSON(JSON.parse(line)));
}

export function playTranscript(events: readonly Event[]): Script {
  return () => events.map((event) => [event]);
}

export const fixedSentence: Script = () => [
  [started({ inputTokens: 8 })],
  [textStart(0), delta(0, "This is a scripted answer."), blockEnd(0)],
  [finished(FinishReason.STOP, { inputTokens: 8, outputTokens: 6 })],
];
