import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Backend, EngineSteps } from "../backend.ts";
import { EngineError } from "../errors.ts";
import type { NodeState } from "./node-state.ts";

/** The number of looks of the watchdog within `stallMs`. */
const LOOKS = 4;

/** What a watchdog watches, and whom it tells. */
export type WatchdogOptions = {
  /** Measures how long no step was made. */
  readonly clock: Clock;
  /** The time for which steps may be in flight of which none is made, in milliseconds. */
  readonly stallMs: number;
  /** The time without a step after which the engine counts as hung, in milliseconds. Default: it never does. */
  readonly hangMs?: number | undefined;
  /** Gives the engine's pulse; undefined from an engine that does not count its steps. */
  readonly steps: () => EngineSteps | undefined;
  /** Called once when steps have been in flight for `stallMs` and none was made. */
  readonly onStall: () => void;
  /** Called once when a stalled engine makes steps again. */
  readonly onRecover: () => void;
  /**
   * Called at every look at a stalled engine that has nothing to do: it gives the engine something, so that it can show
   * that it moves.
   */
  readonly probe: () => void;
};

/** Watches that running work moves. An engine that does not count its steps is never found fault with. */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #cancel: (() => void) | undefined;
  #lookedMs = 0;
  /**
   * The time since the last step in which the engine owed one. That callers leave an engine that stands still does not
   * end it: they come again.
   */
  #stillMs = 0;
  #stalled = false;
  #last: EngineSteps | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /**
   * The time for which running work has seen no step of the engine, beyond what one step may take, in milliseconds; 0
   * where it moves or nothing runs.
   */
  get stepAgeMs(): number {
    const { inFlight = 0, stepTimeoutMs = 0 } = this.#last ?? {};
    return this.#stalled || inFlight > 0 ? Math.max(0, this.#stillMs - stepTimeoutMs) : 0;
  }

  /**
   * Whether the engine is up and has made no step for `hangMs`, or its first one for as long as that may take: only a
   * restart helps.
   */
  get hung(): boolean {
    const { hangMs = Number.POSITIVE_INFINITY } = this.#options;
    const { down = false, startTimeoutMs = 0 } = this.#last ?? {};
    return !down && this.stepAgeMs >= Math.max(hangMs, startTimeoutMs);
  }

  /** Begins to look, four times within `stallMs`. */
  start(): void {
    this.#lookedMs = this.#options.clock.nowMs();
    this.#last = this.#options.steps();
    this.#arm();
  }

  /** Ends the looking. */
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
    const before = this.#last;
    this.#last = steps();
    const { made, inFlight = 0, down = false } = this.#last ?? {};
    // What a restarted engine owes, it owes from when it came up.
    if (before?.down && !down) this.#stillMs = 0;
    if (made === undefined || made !== before?.made) {
      this.#stillMs = 0;
      if (!this.#stalled) return;
      this.#stalled = false;
      onRecover();
    } else {
      if (inFlight > 0 || this.#stalled) this.#stillMs += watchedMs;
      if (this.#stalled) {
        if (inFlight === 0) probe();
      } else if (this.stepAgeMs >= stallMs) {
        this.#stalled = true;
        onStall();
      }
    }
  }
}

/** The generations that a stalled engine leaves without an answer. */
export type RunningCalls = {
  /** The number of generations that the backend works on. */
  readonly running: number;
  /** Ends all running generations with an error that their callers hear at once. */
  stopAll(error: EngineError): void;
};

/** The parts of a node that is watched. */
export type WatchedNode = {
  /** The backend whose steps are watched, and which is probed. */
  readonly backend: Backend;
  /** The ids of the models; a probe names the first. */
  readonly models: readonly string[];
  /** Measures how long no step was made. */
  readonly clock: Clock;
  /** The time for which running work may see no step before the node leaves service, in milliseconds. */
  readonly stallMs: number;
  /** The time without a step after which the engine counts as hung, in milliseconds; undefined: it never does. */
  readonly hangMs?: number | undefined;
  /** The state of the node, which becomes `stalled` and again `serving`. */
  readonly state: NodeState;
  /** The generations that fail when the engine stalls. */
  readonly calls: RunningCalls;
  /** The log that tells of leaving service and coming back. */
  readonly log: Logger;
  /** Called when the node has left service or come back. */
  readonly onChange: () => void;
  /** The signal that is aborted when the node closes, which ends a probe. */
  readonly signal: AbortSignal;
};

/**
 * Makes the watchdog of a node, not yet started: a stalled engine fails what runs and takes nothing new until its steps
 * go on.
 */
export function watchNode(node: WatchedNode): Watchdog {
  const { backend, models, clock, stallMs, hangMs, state, calls, log, onChange, signal } = node;
  return new Watchdog({
    clock,
    stallMs,
    hangMs,
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
 * Asks the backend for one token, for no more than `timeoutMs` milliseconds. Only the steps of the backend tell what
 * came of it: neither the answer nor a failure means anything here.
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
