import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError, type FieldPath, toApiError } from "../../errors.ts";
import { invalidSchema } from "../../formats/field-error.ts";
import { type FieldsAtFault, type Format, INSTRUCTIONS, type Places, WHOLE_PROMPT } from "../../formats/format.ts";
import type { Stats } from "../../stats/stats.ts";
import type { EventSink } from "../../upstream/call/retry-boundary.ts";
import type { RoutingHints } from "../../upstream/load-balancing/route.ts";
import type { PromptFacts } from "../../upstream/request/encoded-request.ts";
import type { RequestBuffer } from "../../upstream/request/request-buffer.ts";
import type { Router } from "../../upstream/router.ts";
import type { RequestRecord } from "../record/request-record.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

export type DispatchDeps = {
  readonly router: Router;
  readonly clock: Clock;
  readonly stats: Stats;
  readonly running: RunningAnswers;
};

/** A request that was checked, translated and charged. */
export type PaidRequest = {
  readonly format: Pick<Format, "name" | "fields">;
  /** Catalog id. */
  readonly model: string;
  /** Positions in the body of the parts that an engine may refuse. */
  readonly places: Places;
  readonly request: RequestBuffer;
  readonly facts: PromptFacts;
  readonly hints: RoutingHints;
  /** Receives the tokens of prompt and answer. Default: they are not kept. */
  readonly kept?: { tokens: number } | undefined;
  readonly record: RequestRecord;
  /** Its signal is aborted when the caller has left or the service stops. */
  readonly answer: RunningAnswer;
};

export type Giving = {
  /** Time limit of the whole answer, in milliseconds from now. */
  readonly timeoutMs: number;
  /** Whether its caller receives keep-alives while the request waits. */
  readonly keepsAlive: boolean;
  readonly sink: EventSink;
  /** Called before events that may send the head of the reply. Default: no call. */
  readonly onHead?: (() => void) | undefined;
};

/** Sends a request to an engine; its events are recorded for log and limits on their way. Throws `ApiError`. */
export async function dispatchAnswer(
  paid: PaidRequest,
  { sink, onHead, ...terms }: Giving,
  { router, running, stats, clock }: DispatchDeps,
  streamed: boolean,
): Promise<void> {
  const { request, facts, hints, kept, record, answer } = paid;
  const { grant } = record.facts;
  const followed: EventSink = {
    events(events, flow) {
      recordEvents(events, record, kept);
      onHead?.();
      sink.events(events, flow);
    },
  };
  if (sink.restart) followed.restart = () => sink.restart?.();
  if (sink.deltas)
    followed.deltas = (next, flow) => {
      for (let at = 0; at < next.texts.length; at += 1) grant?.delta();
      sink.deltas?.(next, flow);
    };
  const format = paid.format.name;
  if (streamed) stats.streamsActive.inc({ format });
  record.sent(hints.priorityClass);
  try {
    await router.dispatch({ request, facts, hints, sink: followed, record, ...terms }, answer.signal);
  } catch (thrown) {
    throw answerFailure(thrown, paid, running);
  } finally {
    if (streamed) {
      stats.streamsActive.dec({ format });
      stats.streamEnd.inc({ format, reason: record.facts.endReason ?? "complete" });
    }
    const { leftMs } = answer;
    if (leftMs !== undefined) stats.cancelLatency.observe((clock.nowMs() - leftMs) / 1000);
  }
}

function recordEvents(events: readonly Event[], record: RequestRecord, kept: PaidRequest["kept"]): void {
  const { grant } = record.facts;
  for (const { kind } of events) {
    if (kind?.$case === "blockDelta") {
      record.delta();
      grant?.delta();
    } else if (kind?.$case === "started") {
      grant?.started(kind.value);
      record.started();
      if (kept) kept.tokens = kind.value.inputTokens;
    } else if (kind?.$case === "finished") {
      const { usage } = kind.value;
      record.finished(kind.value);
      if (kept && usage) kept.tokens = usage.inputTokens + usage.outputTokens;
    }
  }
}

/** Counts and records the start or end of a stream's backpressure. */
export function notePause(
  { format, record }: Pick<PaidRequest, "format" | "record">,
  paused: boolean,
  { streamsPaused }: Stats,
): void {
  streamsPaused.inc({ format: format.name }, paused ? 1 : -1);
  record.paused(paused);
}

/** Records why an answer failed, by the error that ended it, and returns the error for the caller. */
export function answerFailure(
  thrown: unknown,
  {
    record,
    format,
    places,
    answer,
  }: Pick<PaidRequest, "record" | "places" | "answer"> & { readonly format: Pick<Format, "fields"> },
  running: RunningAnswers,
): ApiError {
  const shown = ended(answer, running) ?? located(toApiError(thrown), format.fields, places);
  record.failed(shown.detail, answer.signal.aborted && !running.stopped && !answer.keyEnded);
  return shown;
}

/** Returns the error for an answer that this gateway ended; undefined if it did not. */
function ended({ keyEnded }: RunningAnswer, { stopped }: RunningAnswers): ApiError | undefined {
  if (keyEnded)
    return new ApiError("permission_denied", "The API key of this request was revoked.", { detail: "key_ended" });
  return stopped ? restarting() : undefined;
}

/** Makes the error for an answer that ends because this gateway stops. Agents recognize its text, and retry. */
export function restarting(): ApiError {
  const text = "Service unavailable (connection reset): the service is restarting. Please try again.";
  return new ApiError("server_is_overloaded", text, { detail: "drain_timeout", retryAfterMs: 1_000 });
}

/** Returns an engine's refusal with the field of the format that it is about. */
export function located(error: ApiError, fields: FieldsAtFault, places: Places): ApiError {
  const { toolPaths, schemaPaths, messagePlaces } = places;
  if (error.path) return error;
  if (error.promptMessage !== undefined) {
    const place = messagePlaces ? (messagePlaces[error.promptMessage] ?? WHOLE_PROMPT) : error.promptMessage;
    if (place === INSTRUCTIONS) return error.at(fields.instructions);
    return error.at(place === WHOLE_PROMPT ? fields.prompt : [...fields.prompt, place]);
  }
  if (error.code === "context_length_exceeded") return error.at(fields.prompt);
  if (error.code === "invalid_json_schema") return unusableSchema(error, fields.outputSchema, "response");
  if (error.tool === undefined) return error;
  const tool = toolPaths ? toolPaths[error.tool] : ["tools", error.tool];
  if (error.code === "invalid_value") return error.at(tool ?? ["tools"]);
  if (tool === undefined) return error;
  return unusableSchema(error, schemaPaths?.[error.tool] ?? [...tool, ...fields.toolSchema], "function");
}

/** Returns an engine's refusal of a schema with the text of the gateway's own check. */
function unusableSchema(error: ApiError, path: FieldPath, of: "response" | "function"): ApiError {
  const { code, wording } = invalidSchema(path, error.message, of);
  return new ApiError(code, wording, { path, detail: error.detail, cause: error.cause });
}
