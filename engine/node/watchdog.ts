import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Backend, EngineSteps } from "../backend.ts";
import { EngineError } from "../errors.ts";
import type { NodeState } from "./node-state.ts";

/** Looks per `stallMs`. */
const LOOKS = 4;

export type WatchdogOptions = {
  readonly clock: Clock;
  /** How long steps may be in flight of which none is made. */
  readonly stallMs: number;
  /** The engine's pulse, where it has one. */
  readonly steps: () => EngineSteps | undefined;
  readonly onStall: () => void;
  /** Steps are made again. */
  readonly onRecover: () => void;
  /** Gives an engine that is out of service and idle something to do, so that it can show that it moves. */
  readonly probe: () => void;
};

/** Watches that running work moves. An engine that does not count its steps is never found fault with. */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #cancel: (() => void) | undefined;
  #lastMade: number | undefined;
  #lookedMs = 0;
  #stillMs = 0;
  #stalled = false;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** For how long running work has seen no step, in milliseconds. */
  get stepAgeMs(): number {
    return this.#stillMs;
  }

  start(): void {
    this.#lookedMs = this.#options.clock.nowMs();
    this.#lastMade = this.#options.steps()?.made;
    this.#arm();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock, stallMs } = this.#options;
    this.#cancel = clock.after(stallMs / LOOKS, () => {
      this.#arm();
      this.#look();
    });
  }

  #look(): void {
    const { clock, stallMs, steps, onStall, onRecover, probe } = this.#options;
    const now = clock.nowMs();
    // A process that was itself held up has not watched for all of that time.
    const watchedMs = Math.min(now - this.#lookedMs, (2 * stallMs) / LOOKS);
    this.#lookedMs = now;
    const { made, inFlight = 0 } = steps() ?? {};
    const moved = made !== this.#lastMade;
    this.#lastMade = made;
    if (made === undefined || moved) {
      this.#stillMs = 0;
      if (!this.#stalled) return;
      this.#stalled = false;
      onRecover();
    } else if (inFlight === 0) {
      this.#stillMs = 0;
      if (this.#stalled) probe();
    } else {
      this.#stillMs += watchedMs;
      if (this.#stalled || this.#stillMs < stallMs) return;
      this.#stalled = true;
      onStall();
    }
  }
}

/** The generations that a stalled engine leaves without an answer. */
export type RunningCalls = {
  readonly running: number;
  /** Ends all of them with an error that their callers hear at once. */
  stopAll(error: EngineError): void;
};

export type WatchedNode = {
  readonly backend: Backend;
  readonly models: readonly string[];
  readonly clock: Clock;
  readonly stallMs: number;
  readonly state: NodeState;
  readonly calls: RunningCalls;
  readonly log: Logger;
  /** The node has left service or come back. */
  readonly onChange: () => void;
  /** Aborted when the node closes. */
  readonly signal: AbortSignal;
};

/** A watchdog over a node: a stalled engine fails what runs and takes nothing new until its steps go on. */
export function watchNode(node: WatchedNode): Watchdog {
  const { backend, models, clock, stallMs, state, calls, log, onChange, signal } = node;
  return new Watchdog({
    clock,
    stallMs,
    steps: () => backend.load().steps,
    onStall: () => {
      if (!state.become("stalled")) return;
      log.error({ running: calls.running }, "the engine does not move: out of service");
      calls.stopAll(state.refusal());
      onChange();
    },
    onRecover: () => {
      if (!state.become("serving")) return;
      log.warn("the engine moves again: back in service");
      onChange();
    },
    probe: () => probeBackend(backend, models, stallMs, clock, signal),
  });
}

/**
 * Asks the backend for one token, for no more than `timeoutMs`. What comes of it shows in the backend's steps only:
 * neither the answer nor a failure means anything here.
 */
function probeBackend(
  backend: Backend,
  models: readonly string[],
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal,
): void {
  const give = new AbortController();
  const up = () => give.abort(new EngineError("CANCELLED", "The probe has ended."));
  const cancel = clock.after(timeoutMs, up);
  signal.addEventListener("abort", up);
  const request: GenerateRequest = {
    ...GenerateRequest.create(),
    requestId: "probe",
    model: models[0] ?? "",
    messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text: "." } } }] }],
    maxOutputTokens: 1,
  };
  const run = async () => {
    for await (const _ of backend.generate(request, give.signal)) if (give.signal.aborted) break;
  };
  run()
    .catch(() => {})
    .finally(() => {
      cancel();
      signal.removeEventListener("abort", up);
    });
}
