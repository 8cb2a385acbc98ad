import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import {
  CountTokensResponse,
  type Event,
  GenerateResponse,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError, toApiError } from "../errors.ts";
import { shownCallId } from "../formats/completion.ts";
import { type RateLimitDeps, reserveTokens } from "../http/access/rate-limit.ts";
import {
  type DispatchDeps,
  dispatchAnswer,
  located,
  notePause,
  type PaidRequest,
} from "../http/answer/dispatch-answer.ts";
import { SlowReader, type SlowReaderOptions } from "../http/answer/slow-reader.ts";
import { type TranslationDeps, translateReceived } from "../http/body/request-body.ts";
import { requireModel } from "../http/model-directory.ts";
import { randomId } from "../http/record/trace-context.ts";
import { routingHints } from "../http/request-context.ts";
import { RPCS } from "../routes.ts";
import type { Translated } from "../translation/translate.ts";
import type { Flow } from "../upstream/call/generate-call.ts";
import { RequestBuffer } from "../upstream/call/request-buffer.ts";
import type { RpcCall } from "./rpc-call.ts";

/** The dependencies of the methods: the parts of the public API. */
export type InferenceDeps = DispatchDeps & {
  readonly translation: TranslationDeps;
  readonly limits: RateLimitDeps;
  /** The time limits of an answer, in milliseconds; `upstream/call/timeouts.ts` has what each means. */
  readonly timeouts: { readonly clientWriteStallMs: number; readonly maxStreamDurationMs: number };
};

/** A Generate call of grpc-js, with its messages as bytes. */
export type GenerateStream = ServerWritableStream<Buffer, Buffer>;
/** A CountTokens call of grpc-js, with its message as bytes. */
export type CountCall = ServerUnaryCall<Buffer, Buffer>;

/** It never rejects. */
export async function generate(rpc: RpcCall, call: GenerateStream, deps: InferenceDeps): Promise<void> {
  try {
    await streamedAnswer(await checked(rpc, call.request, "generate", deps), rpc, call, deps);
    call.end();
  } catch (error) {
    // A cancelled call cannot receive a status.
    if (!call.cancelled) call.emit("error", rpc.failure(toApiError(error)));
  }
}

/** It never rejects. */
export async function countTokens(
  rpc: RpcCall,
  call: CountCall,
  reply: sendUnaryData<Buffer>,
  deps: InferenceDeps,
): Promise<void> {
  try {
    const { model, translated, answer } = await checked(rpc, call.request, "countTokens", deps);
    const { tenant } = principalOf(rpc);
    const counting = { request: new RequestBuffer(translated.bytes, tenant), model, record: rpc.record };
    const inputTokens = await deps.router.tokenCounter.count(counting, answer.signal).catch((error: unknown) => {
      throw located(toApiError(error), RPCS.countTokens.format.fields, translated.places);
    });
    const message = Buffer.from(CountTokensResponse.encode({ inputTokens }).finish());
    rpc.writes(message.length, true);
    reply(null, message);
  } catch (error) {
    if (!call.cancelled) reply(rpc.failure(toApiError(error)));
  }
}

/** A call with a valid message whose key may use the model. */
type CheckedCall = {
  readonly model: string;
  readonly translated: Translated;
  readonly answer: PaidRequest["answer"];
};

/** Checks the message of a call and the key's right to the model. Throws `ApiError`. */
async function checked(
  rpc: RpcCall,
  message: Buffer,
  method: keyof typeof RPCS,
  { running, translation }: InferenceDeps,
): Promise<CheckedCall> {
  const { record } = rpc;
  const principal = principalOf(rpc);
  const answer = running.begin(rpc, principal.keyId);
  record.bodyRead(message.length);
  const { operation, use } = RPCS[method];
  const received = { bytes: message, singleKeys: undefined };
  const translated = await translateReceived(received, { operation, record, principal }, answer.signal, translation);
  record.prepared(translated.model, use === "generation" ? true : undefined);
  requireModel(principal, translated.model);
  return { model: translated.model, translated, answer };
}

async function streamedAnswer(
  { model, translated, answer }: CheckedCall,
  rpc: RpcCall,
  call: GenerateStream,
  deps: InferenceDeps,
): Promise<void> {
  const { bytes, facts, places } = translated;
  const { record, limited } = rpc;
  if (!facts || !limited) throw new Error("a generation was translated as something else");
  await reserveTokens(limited, translated, deps.limits);
  const principal = principalOf(rpc);
  const paid: PaidRequest = {
    ...{ format: RPCS.generate.format, model, places, facts, record, answer },
    request: new RequestBuffer(bytes, principal.tenant, () => rpc.body?.release()),
    hints: routingHints(principal, rpc.headers),
  };
  const writer = openWriter(paid, rpc, call, deps);
  const ownMs = Number(call.getDeadline()) - deps.clock.wallMs();
  const timeoutMs = Math.min(deps.timeouts.maxStreamDurationMs, ownMs);
  try {
    await dispatchAnswer(paid, { timeoutMs, mayHold: true, sink: writer }, deps, true);
  } finally {
    writer.end();
  }
}

function openWriter(paid: PaidRequest, rpc: RpcCall, call: GenerateStream, deps: InferenceDeps): EventWriter {
  const { record, model, answer } = paid;
  const { stats, clock, timeouts } = deps;
  const gaps = stats.gaps.labels(model);
  return new EventWriter({
    target: {
      write(message, commits) {
        if (call.cancelled) return true;
        rpc.writes(message.length, commits);
        return call.write(message);
      },
      onDrain: (listener) => call.on("drain", listener),
    },
    replyId: randomId(),
    clock,
    writeStallMs: timeouts.clientWriteStallMs,
    onStall() {
      record.readerStalled();
      answer.abort();
      rpc.cut();
    },
    onGap(gapMs) {
      gaps.observe(gapMs / 1000);
      record.wrote(gapMs);
    },
    onPaused: (paused) => notePause(paid, paused, stats),
  });
}

function principalOf({ limited }: RpcCall) {
  if (!limited) throw new ApiError("server_error", "The server had an error while processing your request.");
  return limited.principal;
}

/** The call that receives the messages of an answer. */
type MessageTarget = {
  /**
   * Sends a message; `commits` marks the answer as committed, so that no retry is possible. Returns false if the reader
   * is too slow.
   */
  write(message: Buffer, commits: boolean): boolean;
  /** Calls `listener` whenever the reader has caught up. */
  onDrain(listener: () => void): void;
};

type EventWriterOptions = SlowReaderOptions & {
  readonly target: MessageTarget;
  /** Id of the reply, from which unique ids of calls are derived. */
  readonly replyId: string;
  readonly clock: Clock;
  /** Called at every write of deltas but the first, with the milliseconds since the previous one. */
  readonly onGap: (gapMs: number) => void;
};

/**
 * Writes the events of one answer to a gRPC client as they arrive. It buffers no events: the engine stream of a slow
 * reader is paused. Events between nodes and gateways are omitted.
 */
class EventWriter {
  readonly #options: EventWriterOptions;
  #started = false;
  #lastMs: number | undefined;
  readonly #reader: SlowReader;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#reader = new SlowReader(options);
    options.target.onDrain(() => this.#reader.drained());
  }

  /** Writes the events of one message. It runs for every delta. */
  events(events: readonly Event[], flow: Flow): void {
    const shown = events.flatMap((event) => this.#shown(event));
    if (shown.length === 0) return;
    const commits = shown.some(({ kind }) => kind?.$case !== "started" && kind?.$case !== "progress");
    const message = GenerateResponse.encode({ events: shown, tokens: [] }).finish();
    const kept = this.#options.target.write(
      Buffer.from(message.buffer, message.byteOffset, message.byteLength),
      commits,
    );
    if (commits) {
      const nowMs = this.#options.clock.nowMs();
      if (this.#lastMs !== undefined) this.#options.onGap(nowMs - this.#lastMs);
      this.#lastMs = nowMs;
    }
    if (!kept) this.#reader.pause(flow);
  }

  /** The answer has ended. */
  end(): void {
    this.#reader.release();
  }

  /** Returns an event as callers see it; empty if it is not for callers. */
  #shown(event: Event): readonly Event[] {
    const { kind } = event;
    if (kind?.$case === "started") {
      // The `started` event of a retry adds no information.
      if (this.#started) return [];
      this.#started = true;
      return [{ kind: { $case: "started", value: { ...kind.value, nodeId: "" } } }];
    }
    if (kind?.$case !== "blockStarted" || kind.value.block?.$case !== "toolCall") return kind ? [event] : [];
    const { index, block } = kind.value;
    const callId = shownCallId("call_", block.value.callId, this.#options);
    const value = { index, block: { $case: "toolCall", value: { ...block.value, callId } } } as const;
    return [{ kind: { $case: "blockStarted", value } }];
  }
}
