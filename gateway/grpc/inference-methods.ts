import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
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
import { SlowReader } from "../http/answer/slow-reader.ts";
import { type TranslationDeps, translateReceived } from "../http/body/request-body.ts";
import { routingHints } from "../http/record/request-context.ts";
import { randomId } from "../http/record/trace-context.ts";
import { RPCS } from "../routes.ts";
import type { Translation } from "../translation/translator.ts";
import type { Flow } from "../upstream/call/retry-boundary.ts";
import { RequestBuffer } from "../upstream/request/request-buffer.ts";
import { asBuffer } from "../upstream/wire/generate-wire.ts";
import type { RpcCall } from "./rpc-call.ts";

export type InferenceDeps = DispatchDeps & {
  readonly translation: TranslationDeps;
  readonly limits: RateLimitDeps;
  /** The time limits of an answer, in milliseconds; `upstream/call/timeouts.ts` has what each means. */
  readonly timeouts: { readonly clientWriteStallMs: number; readonly maxStreamDurationMs: number };
};

export type GenerateStream = ServerWritableStream<Buffer, Buffer>;
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
    const counting = { request: new RequestBuffer(translated, tenant), model, record: rpc.record };
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

type CheckedCall = {
  readonly model: string;
  readonly translated: Translation;
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
  const translated = await translateReceived(
    received,
    { operation, record, principal, headers: rpc.headers },
    answer.signal,
    translation,
  );
  record.prepared(translated.model, use === "generation" ? true : undefined);
  translation.models.require(principal, translated.model);
  return { model: translated.model, translated, answer };
}

async function streamedAnswer(
  { model, translated, answer }: CheckedCall,
  rpc: RpcCall,
  call: GenerateStream,
  deps: InferenceDeps,
): Promise<void> {
  const { bytes, facts, kept, places } = translated;
  const { record, limited } = rpc;
  if (!facts || !limited) throw new Error("a generation was translated as something else");
  await reserveTokens(limited, translated, deps.limits);
  const principal = principalOf(rpc);
  const paid: PaidRequest = {
    ...{ format: RPCS.generate.format, model, places, facts, kept, record, answer },
    request: new RequestBuffer({ bytes }, principal.tenant, () => rpc.body?.release()),
    hints: routingHints(principal, rpc.headers, translated.priority),
  };
  const writer = new EventWriter(paid, rpc, call, deps);
  const ownMs = Number(call.getDeadline()) - deps.clock.wallMs();
  const timeoutMs = Math.min(deps.timeouts.maxStreamDurationMs, ownMs);
  try {
    await dispatchAnswer(paid, { timeoutMs, keepsAlive: true, sink: writer }, deps, true);
  } finally {
    writer.end();
  }
}

function principalOf({ limited }: RpcCall) {
  if (!limited) throw new ApiError("server_error", "The server had an error while processing your request.");
  return limited.principal;
}

/**
 * Writes the events of one answer to a gRPC client as they arrive. It buffers no events: the engine stream of a slow
 * reader is paused. Events between nodes and gateways are omitted.
 */
class EventWriter {
  readonly #rpc: RpcCall;
  readonly #call: GenerateStream;
  readonly #clock: InferenceDeps["clock"];
  readonly #reader: SlowReader;
  readonly #gaps: ReturnType<InferenceDeps["stats"]["gaps"]["labels"]>;
  readonly #head = { replyId: randomId() };
  #started = false;
  #lastMs: number | undefined;

  constructor(paid: PaidRequest, rpc: RpcCall, call: GenerateStream, deps: InferenceDeps) {
    this.#rpc = rpc;
    this.#call = call;
    const { clock, timeouts, stats } = deps;
    this.#clock = clock;
    this.#gaps = stats.gaps.labels(paid.model);
    this.#reader = new SlowReader({
      clock,
      writeStallMs: timeouts.clientWriteStallMs,
      onStall() {
        paid.record.readerStalled();
        paid.answer.abort();
        rpc.cut();
      },
      onPaused: (paused) => notePause(paid, paused, stats),
    });
    call.on("drain", () => this.#reader.drained());
  }

  /** Writes the events of one message. It runs for every delta. */
  events(events: readonly Event[], flow: Flow): void {
    const shown = events.flatMap((event) => this.#shown(event));
    if (shown.length === 0) return;
    const commits = shown.some(({ kind }) => kind?.$case !== "started" && kind?.$case !== "progress");
    const message = asBuffer(GenerateResponse.encode({ events: shown, tokens: [] }).finish());
    const kept = this.#write(message, commits);
    if (commits) this.#noteGap();
    if (!kept) this.#reader.pause(flow);
  }

  end(): void {
    this.#reader.release();
  }

  #write(message: Buffer, commits: boolean): boolean {
    if (this.#call.cancelled) return true;
    this.#rpc.writes(message.length, commits);
    return this.#call.write(message);
  }

  #noteGap(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#lastMs !== undefined) {
      this.#gaps.observe((nowMs - this.#lastMs) / 1000);
      this.#rpc.record.wrote(nowMs - this.#lastMs);
    }
    this.#lastMs = nowMs;
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
    const callId = shownCallId("call_", block.value.callId, this.#head);
    const value = { index, block: { $case: "toolCall", value: { ...block.value, callId } } } as const;
    return [{ kind: { $case: "blockStarted", value } }];
  }
}
