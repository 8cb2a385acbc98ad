import { expect } from "vitest";
import { becomes } from "../becomes.ts";
import {
  ANSWER_PATHS,
  type AnswerPath,
  bodyFor,
  brokenEnd,
  endOf,
  hasDelta,
  type StreamEnd,
} from "../http/answer-check.ts";
import { type BodyReader, readBody } from "../http/read-until.ts";
import type { EngineProcess } from "./engine-process.ts";
import { FRONT_MODELS, outcomeOf, type Seen } from "./fault-front.ts";
import type { GatewayProcess } from "./gateway-process.ts";

/** How far requests have come when their fault strikes. */
export type Phase = "before it is accepted" | "before the first delta" | "in the answer";

const LASTING = { min: 1_000, max: 1_000 };

/** The settings of a simulator that can go on with any answer of a phase, as its own are no shorter. */
export const GOES_ON = { tokensPerSecond: 100_000, answerTokens: LASTING };

/**
 * The phases with the settings of a simulator that keep all requests in each. The first phase depends on the node,
 * which must be held.
 */
export const PHASES: readonly (readonly [Phase, object])[] = [
  ["before it is accepted", {}],
  ["before the first delta", { timeToFirstTokenMs: 600_000 }],
  ["in the answer", { tokensPerSecond: 25, answerTokens: LASTING }],
];

/** One kind of request: each format, streamed and not, with another endpoint to turn to (`svc-qwen`) and without. */
export type Variant = { readonly path: AnswerPath; readonly stream: boolean; readonly model: string };

/** All kinds of requests. */
export const VARIANTS: readonly Variant[] = ANSWER_PATHS.flatMap((path) =>
  [true, false].flatMap((stream) => FRONT_MODELS.map((model) => ({ path, stream, model }))),
);

type Sent = {
  readonly response: Promise<Response>;
  /** Once the status line is there, where that is before the end. */
  body: BodyReader | undefined;
};

/** One request of every kind, sent together to the gateway of `startFront`, for one fault. */
export class FaultBunch {
  readonly #gateway: GatewayProcess;
  readonly #sent: ReadonlyMap<Variant, Sent>;

  private constructor(gateway: GatewayProcess) {
    this.#gateway = gateway;
    this.#sent = new Map(VARIANTS.map((variant) => [variant, send(gateway, variant)]));
  }

  /** Sends all requests at once. */
  static send(gateway: GatewayProcess): FaultBunch {
    return new FaultBunch(gateway);
  }

  /** Resolves when all requests have come as far, on this engine. */
  async reach(phase: Phase, engine: EngineProcess): Promise<void> {
    const all = this.#sent.size;
    const active = () => this.#gateway.stat("svc_endpoint_rq_active");
    await becomes(async () => (await active()) === all, "all are sent");
    if (phase === "before it is accepted") return;
    await becomes(async () => (await engine.metric("svc_engine_slots_busy")) === all, "all have their slots");
    if (phase === "before the first delta") {
      // Every start was sent before the node answered this; then it is on its way for some turns of the gateway's.
      for (let turn = 0; turn < 5; turn += 1) await Promise.all([engine.metrics(), this.#gateway.stats()]);
      return;
    }
    for (const [{ path, stream }, one] of this.#sent) {
      if (!stream) continue;
      one.body = readBody(await one.response);
      await one.body.until((text) => hasDelta(path, text));
    }
  }

  /** The answers, when all are there. */
  async outcomes(): Promise<ReadonlyMap<Variant, Seen>> {
    const seen = new Map<Variant, Seen>();
    for (const [variant, { response, body }] of this.#sent)
      seen.set(variant, await outcomeOf(this.#gateway, await response, body));
    return seen;
  }
}

/** Whether an endpoint goes on with an answer once its own fault is over. */
export type Recovery = "no" | "yes" | "perhaps";

/** What is expected of the requests of a bunch. */
export type Expected = {
  readonly phase: Phase;
  /** The token of the fault. */
  readonly detail: string;
  /** The address of the endpoint that has no fault. */
  readonly good: string;
  /** Whether another endpoint goes on with an answer that had begun. */
  readonly continued: boolean;
  /** Whether the endpoint with the fault does, too, once it is over, or may, where that is chance. Default: "no". */
  readonly recovers?: Recovery;
};

/**
 * Fails unless this is what a fault of an endpoint may look like: nothing where there was another endpoint, or where an
 * answer goes on; else an error in the stream that had begun, and overload where none had.
 */
export function expectOutcome(
  { path, stream, model }: Variant,
  result: Seen | undefined,
  { phase, detail, good, continued, recovers = "no" }: Expected,
): void {
  if (!result) throw new Error("there was no answer");
  const { status, text, cut, log } = result;
  const hasOther = model === FRONT_MODELS[0];
  const goesOn =
    continued &&
    phase === "in the answer" &&
    (hasOther || recovers === "yes" || (recovers === "perhaps" && log.detail === undefined));
  if (phase === "in the answer" && stream && !goesOn) {
    expect(status).toBe(200);
    expect(endOf(path, text, cut)).toEqual(lostEnd(path));
    const endReason = detail.endsWith("_timeout") ? "stall" : "engine_died";
    expect(log).toMatchObject({ code: 200, detail, end_reason: endReason });
  } else if (hasOther || goesOn) {
    expect(status).toBe(200);
    if (stream) expect(endOf(path, text, cut)).toEqual({ end: "complete" });
    expect(log).toMatchObject(hasOther ? { code: 200, endpoint: good } : { code: 200 });
    // One that goes on nowhere is asked for once, and then begins anew.
    if (hasOther) expect(log.attempts).toBeLessThanOrEqual(continued ? 2 : 3);
    expect(["complete", "length"]).toContain(log.end_reason);
    // Of one that is not streamed nobody has seen whether it had begun.
    if (goesOn && stream) expect(log.continuations).toBeGreaterThanOrEqual(1);
    else if (stream) expect(log.continuations).toBeUndefined();
    expect(log.detail).toBeUndefined();
  } else {
    const overloaded = path === "/v1/messages" ? 529 : 503;
    // One that may recover is asked again, and the last try says how it failed; Node 24 tells of a connection that brings
    // nonsense, and Node 20 does not.
    const told = recovers === "perhaps" ? expect.stringMatching(/_timeout$|^upstream_reset$/) : detail;
    expect({ status, detail: log.detail }).toEqual({ status: overloaded, detail: told });
    expectOverloaded(path, text);
  }
  expect(text).not.toContain("127.0.0.1");
}

/** Fails unless this is the body that says, in the path's envelope, that the service has too much to do. */
export function expectOverloaded(path: AnswerPath, text: string): void {
  expect(JSON.parse(text).error).toMatchObject(
    path === "/v1/messages" ? { type: "overloaded_error" } : { type: "server_error", code: "server_is_overloaded" },
  );
}

const LOST = "Internal server error (connection reset): the engine stopped before the answer was complete.";

/** Returns the end of a stream whose engine was lost. */
export function lostEnd(path: AnswerPath): StreamEnd {
  return brokenEnd(path) === "cut" ? { end: "cut" } : { end: "error", error: { code: "server_error", message: LOST } };
}

function send(gateway: GatewayProcess, { path, stream, model }: Variant): Sent {
  const response = gateway.post(path, bodyFor(path, `${path} ${stream} ${model}`, { stream, model }));
  response.catch(() => {});
  return { response, body: undefined };
}
