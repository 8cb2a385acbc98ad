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

export type Phase = "before it is accepted" | "before the first delta" | "in the answer";

const LASTING = { min: 1_000, max: 1_000 };

/** Settings of a simulator that can continue any answer of a phase, because its own are no shorter. */
export const GOES_ON = { tokensPerSecond: 100_000, answerTokens: LASTING };

/** The phases, with the simulator settings that keep requests in each. For the first the node must be stopped. */
export const PHASES: readonly (readonly [Phase, object])[] = [
  ["before it is accepted", {}],
  ["before the first delta", { timeToFirstTokenMs: 600_000 }],
  ["in the answer", { tokensPerSecond: 25, answerTokens: LASTING }],
];

/** One kind of request: each format, streamed and not, with another endpoint (`svc-qwen`) and without. */
export type Variant = { readonly path: AnswerPath; readonly stream: boolean; readonly model: string };

export const VARIANTS: readonly Variant[] = ANSWER_PATHS.flatMap((path) =>
  [true, false].flatMap((stream) => FRONT_MODELS.map((model) => ({ path, stream, model }))),
);

type Sent = {
  readonly response: Promise<Response>;
  /** Set once the status line has arrived, if that is before the end. */
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

  static send(gateway: GatewayProcess): FaultBunch {
    return new FaultBunch(gateway);
  }

  async reach(phase: Phase, engine: EngineProcess): Promise<void> {
    const all = this.#sent.size;
    const active = () => this.#gateway.stat("svc_endpoint_rq_active");
    await becomes(async () => (await active()) === all, "all are sent");
    if (phase === "before it is accepted") return;
    await becomes(async () => (await engine.metric("svc_engine_slots_busy")) === all, "all have their slots");
    if (phase === "before the first delta") {
      // Every start was sent before the node answered this; its delivery takes some more turns of the gateway.
      for (let turn = 0; turn < 5; turn += 1) await Promise.all([engine.metrics(), this.#gateway.stats()]);
      return;
    }
    for (const [{ path, stream }, one] of this.#sent) {
      if (!stream) continue;
      one.body = readBody(await one.response);
      await one.body.until((text) => hasDelta(path, text));
    }
  }

  async outcomes(): Promise<ReadonlyMap<Variant, Seen>> {
    const seen = new Map<Variant, Seen>();
    for (const [variant, { response, body }] of this.#sent)
      seen.set(variant, await outcomeOf(this.#gateway, await response, body));
    return seen;
  }
}

/** Whether an endpoint continues an answer after its own fault. */
export type Recovery = "no" | "yes" | "perhaps";

export type Expected = {
  readonly phase: Phase;
  readonly detail: string;
  /** Address of the endpoint without a fault. */
  readonly good: string;
  /** Whether another endpoint continues an answer that had begun. */
  readonly continued: boolean;
  /** Whether the endpoint with the fault does so too after the fault, or may, by chance. Default: "no". */
  readonly recovers?: Recovery;
};

/** Fails unless the outcome fits a fault: none with another endpoint or a continuation, else an error or overload. */
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
    // An answer that cannot continue is attempted once, and then restarted.
    if (hasOther) expect(log.attempts).toBeLessThanOrEqual(continued ? 2 : 3);
    expect(["complete", "length"]).toContain(log.end_reason);
    // Whether an unstreamed answer had begun is unknown.
    if (goesOn && stream) expect(log.continuations).toBeGreaterThanOrEqual(1);
    else if (stream) expect(log.continuations).toBeUndefined();
    expect(log.detail).toBeUndefined();
  } else {
    const overloaded = path === "/v1/messages" ? 529 : 503;
    // A recovering endpoint is tried again, and the last attempt gives the error; Node 24 reports an invalid
    // connection, and Node 20 does not.
    const expected = recovers === "perhaps" ? expect.stringMatching(/_timeout$|^upstream_reset$/) : detail;
    expect({ status, detail: log.detail }).toEqual({ status: overloaded, detail: expected });
    expectOverloaded(path, text);
  }
  expect(text).not.toContain("127.0.0.1");
}

export function expectOverloaded(path: AnswerPath, text: string): void {
  expect(JSON.parse(text).error).toMatchObject(
    path === "/v1/messages" ? { type: "overloaded_error" } : { type: "server_error", code: "server_is_overloaded" },
  );
}

const LOST = "Internal server error (connection reset): the engine stopped before the answer was complete.";

export function lostEnd(path: AnswerPath): StreamEnd {
  return brokenEnd(path) === "cut" ? { end: "cut" } : { end: "error", error: { code: "server_error", message: LOST } };
}

function send(gateway: GatewayProcess, { path, stream, model }: Variant): Sent {
  const response = gateway.post(path, bodyFor(path, `${path} ${stream} ${model}`, { stream, model }));
  response.catch(() => {});
  return { response, body: undefined };
}
