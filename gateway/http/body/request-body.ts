import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { WorkNotDone } from "../../../deploy/runtime/threads/work-threads.ts";
import { ApiError } from "../../errors.ts";
import { priorityOfHeaders } from "../../formats/agent-hints.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Detail } from "../../outcome.ts";
import type { ExceededBudget, InflightBody } from "../../overload/body-budget.ts";
import type { LackingResource, OverloadManager } from "../../overload/overload-manager.ts";
import type { ConversationBefore } from "../../translation/translate.ts";
import type { ReceivedBody, Translation, Translator } from "../../translation/translator.ts";
import type { ModelDirectory } from "../access/model-directory.ts";
import { bodyTooLarge } from "../access/request-head.ts";
import { bodyBrokeOff, principalOf, type ReplyUnderWay, routeOf } from "../record/request-context.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { receiveBody } from "./body-upload.ts";
import { contentCoding, receiveDecoded } from "./content-coding.ts";

/** Detail token for each exhausted resource. */
const LACKING = {
  inflight_body_bytes: "overload_inflight_body_bytes",
  fixed_heap: "overload_fixed_heap",
  process_memory: "overload_process_memory",
} as const satisfies Readonly<Record<LackingResource | Exclude<ExceededBudget, "key_body_bytes">, Detail>>;

export type BodyLimits = {
  /** Bytes of the largest body; the record of a key may have a lower limit. */
  readonly maxBodyBytes: number;
  readonly overload: OverloadManager;
  /** Returns a random number, uniform over [0, 1). */
  readonly random: () => number;
};

declare module "fastify" {
  interface FastifyRequest {
    /** The body's share of the budget, until no engine needs it any more; undefined on routes without a key. */
    inflightBody: InflightBody | undefined;
  }
}

/** Refuses a body by its announced size, if too large or beyond the memory; one without capacity beside others waits. */
export async function reserveBody(request: FastifyRequest, reply: FastifyReply, limits: BodyLimits): Promise<void> {
  const announced = Number(request.raw.headers["content-length"] ?? 0);
  const maxBytes = maxBytesOf(request.record, limits);
  if (announced > maxBytes) throw bodyTooLarge(maxBytes);
  request.inflightBody = beginBody(announced, principalOf(request), reply.raw, limits);
  if (reply.raw.destroyed) return;
  const lack = await request.inflightBody.reserve(announced);
  if (lack) throw budgetExceeded(lack, limits.random);
}

/**
 * Begins the accounting of a body, which is released when the reply has ended, or before. Throws `ApiError` if memory
 * is too short for `announced` bytes.
 */
export function beginBody(
  announced: number,
  { tenant }: Pick<Principal, "tenant">,
  reply: ReplyUnderWay,
  { overload, random }: Pick<BodyLimits, "overload" | "random">,
): InflightBody {
  const lacking = overload.lacksFor(announced);
  if (lacking) throw inTrouble(LACKING[lacking], random);
  const body = overload.bodies.begin(tenant);
  // Every request ends here, whatever its outcome.
  if (!reply.destroyed) reply.on("close", () => body.release());
  return body;
}

/**
 * Makes `app` read the body of every request that has one and a route, as unparsed JSON. A caller that waits for it
 * (`Expect`) is answered with 100 then: the key and the length of the body are valid.
 */
export function parseBodies(app: FastifyInstance, limits: BodyLimits): void {
  const { random } = limits;
  const { server } = app;
  const waiting = new WeakMap<IncomingMessage, ServerResponse>();
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    waiting.set(request, response);
    server.emit("request", request, response);
  });
  // Node answers any other expectation with 417, without an envelope.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  app.decorateRequest("limited");
  app.decorateRequest("inflightBody");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest, payload: IncomingMessage) => {
    const { inflightBody: inflight } = request;
    // A caller without a key must not use up the budget of all bodies.
    if (request.is404 || !inflight) return undefined;
    const coding = contentCoding(payload);
    const singleKeys = routeOf(request)?.singleKeys ?? [];
    const take = (chunk: Buffer) => {
      const lack = inflight.add(chunk.length);
      if (lack) throw budgetExceeded(lack, random);
    };
    waiting.get(request.raw)?.writeContinue();
    const maxBytes = maxBytesOf(request.record, limits);
    const announced = Number(payload.headers["content-length"] ?? 0);
    const bytes = await (coding === undefined
      ? receiveBody(payload, announced, maxBytes, take)
      : receiveDecoded(payload, coding, maxBytes, take));
    request.record.bodyRead(bytes.length);
    return { bytes, singleKeys } satisfies ReceivedBody;
  });
}

export type TranslationDeps = {
  readonly translator: Translator;
  readonly models: ModelDirectory;
  readonly overload: OverloadManager;
  /** Returns a random number, uniform over [0, 1). */
  readonly random: () => number;
};

/**
 * Checks the body of a request and translates it for an engine. The body is removed from the request, which lives as
 * long as its answer, so that a large body can be freed. `signal` is aborted when the caller has left. Throws
 * `ApiError`.
 */
export async function translateBody(
  request: FastifyRequest,
  signal: AbortSignal,
  deps: TranslationDeps,
): Promise<Translation> {
  const received = request.body as ReceivedBody | undefined; // from the body parser above
  request.body = undefined;
  const operation = routeOf(request)?.operation;
  if (!operation) throw new Error("a body without a route is not translated");
  return translateReceived(
    received,
    { operation, record: request.record, principal: principalOf(request), headers: request.headers },
    signal,
    deps,
  );
}

export type BodyOrder = {
  readonly operation: string;
  readonly record: Pick<RequestRecord, "requestId">;
  readonly principal: Principal;
  readonly headers: IncomingHttpHeaders;
  /** What the body continues; absent for a whole conversation. */
  readonly before?: ConversationBefore | undefined;
};

/** Checks and translates a received body, as `translateBody` does. */
export async function translateReceived(
  received: ReceivedBody | undefined,
  { operation, record, principal, headers, before }: BodyOrder,
  signal: AbortSignal,
  { translator, models, overload, random }: TranslationDeps,
): Promise<Translation> {
  const bodyBytes = received?.bytes.length ?? 0;
  const lacking = overload.lacksFor(bodyBytes);
  if (lacking) throw inTrouble(LACKING[lacking], random);
  const { tenant, routingKey, cacheSalt, limits, loadTests } = principal;
  const { requestId } = record;
  const usableModels: string[] = [];
  for (const { id } of models.usable(principal)) usableModels.push(id);
  const { maxOutputTokens } = limits;
  const priority = priorityOfHeaders(headers);
  const caller = { requestId, tenant, routingKey, cacheSalt, maxOutputTokens, usableModels, loadTests, priority };
  overload.countTranslated(bodyBytes);
  try {
    return await translator.translate(received, { operation, caller, bodyBytes, before }, signal);
  } catch (error) {
    if (!(error instanceof WorkNotDone)) throw error;
    if (error.why === "given_up") throw inTrouble("translation_given_up", random);
    throw bodyBrokeOff();
  } finally {
    overload.countTranslated(-bodyBytes);
  }
}

export function budgetExceeded(lack: ExceededBudget, random: () => number): ApiError {
  if (lack !== "key_body_bytes") return inTrouble(LACKING[lack], random);
  const { retryAfterMs = 0 } = inTrouble("key_body_bytes_exceeded", random);
  const text = "The requests of this key that are on their way are too large together. Please try again shortly.";
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs,
    detail: "key_body_bytes_exceeded",
  });
}

/** Returns the largest allowed body of a request, in bytes. */
export function maxBytesOf(
  { facts: { principal } }: Pick<RequestRecord, "facts">,
  { maxBodyBytes }: Pick<BodyLimits, "maxBodyBytes">,
): number {
  return Math.min(maxBodyBytes, principal?.limits.maxBodyBytes ?? maxBodyBytes);
}

const MIN_RETRY_MS = 1_000;
const RETRY_SPREAD_MS = 2_000;

/** Throws `ApiError` while the process is in too much trouble to take a request. */
export function refuseInTrouble(overload: OverloadManager, random: () => number): void {
  if (overload.isActive("stopAcceptingRequests")) throw inTrouble("overload_stop_accepting_requests", random);
}

/** Makes the error for a request that the overload manager refuses. `random` is uniform over [0, 1). */
export function inTrouble(detail: Detail, random: () => number): ApiError {
  return new ApiError("server_is_overloaded", "The service is overloaded. Please try again shortly.", {
    retryAfterMs: MIN_RETRY_MS + random() * RETRY_SPREAD_MS,
    detail,
  });
}
