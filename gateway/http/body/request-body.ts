import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { WorkNotDone } from "../../../deploy/runtime/threads/work-threads.ts";
import { ApiError } from "../../errors.ts";
import { type JsonLimits, JsonScan } from "../../json/json-scan.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Detail } from "../../outcome.ts";
import type { InflightBody, NoRoom } from "../../overload/inflight-bodies.ts";
import type { LackingResource, OverloadManager } from "../../overload/overload-manager.ts";
import type { Translated } from "../../translation/translate.ts";
import { isBig, type ReceivedBody, type Translator } from "../../translation/translator.ts";
import { inTrouble } from "../access/overload.ts";
import { bodyTooLarge } from "../access/request-hygiene.ts";
import { bodyBrokeOff } from "../fastify-error.ts";
import type { ModelDirectory } from "../model-directory.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { principalOf, type ReplyUnderWay, routeOf } from "../request-context.ts";
import { receiveBody } from "./body-upload.ts";

/** The detail token for each resource that has no room for a body. */
const LACKING = {
  inflight_body_bytes: "overload_inflight_body_bytes",
  fixed_heap: "overload_fixed_heap",
  process_memory: "overload_process_memory",
} as const satisfies Readonly<Record<LackingResource | Exclude<NoRoom, "key_body_bytes">, Detail>>;

/** What the bodies of requests may cost, and what turns them away. */
export type BodyLimits = {
  /** The size of the largest body, in bytes; the record of a key may say less. */
  readonly maxBodyBytes: number;
  /** What parsing the JSON of one body may cost. */
  readonly json: JsonLimits;
  /** Knows whether there is room for all bodies together. */
  readonly overload: OverloadManager;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

declare module "fastify" {
  interface FastifyRequest {
    /**
     * What the body takes up of the room of all bodies, until no engine needs it any more; undefined on routes without
     * a key.
     */
    inflightBody: InflightBody | undefined;
  }
}

/**
 * Refuses requests of this context for the body that their head announces, before a byte of it is read: one that is too
 * large, or that memory has no room for. One that the other bodies leave no room waits for it. For routes with a key.
 */
export function limitBodies(app: FastifyInstance, limits: BodyLimits): void {
  app.addHook("onRequest", async (request, reply) => {
    const announced = Number(request.raw.headers["content-length"] ?? 0);
    const maxBytes = maxBytesOf(request.record, limits);
    if (announced > maxBytes) throw bodyTooLarge(maxBytes);
    request.inflightBody = beginBody(announced, principalOf(request), reply.raw, limits);
    if (reply.raw.destroyed) return;
    const lack = await request.inflightBody.reserve(announced);
    if (lack) throw noRoom(lack, limits.random);
  });
}

/**
 * Begins the body of a request, which takes up nothing yet and what it holds until the reply is over, or until it is
 * released before. Throws `ApiError` where memory has no room for `announced` bytes.
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
  // Every request ends here, whatever happens to it.
  if (!reply.destroyed) reply.on("close", () => body.release());
  return body;
}

/** Makes `app` read the body of every request that has one and a route, as JSON that is yet to be parsed. */
export function receiveBodies(app: FastifyInstance, limits: BodyLimits): void {
  const { json, random } = limits;
  app.decorateRequest("inflightBody");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest, payload: IncomingMessage) => {
    const { inflightBody: inflight } = request;
    // Whoever has no key must not be able to fill the room that bodies have together.
    if (request.is404 || !inflight) return undefined;
    const singleKeys = routeOf(request)?.singleKeys ?? [];
    const announced = Number(request.headers["content-length"] ?? 0);
    const scan = isBig(announced) ? undefined : new JsonScan(singleKeys, json);
    const take = (chunk: Buffer) => {
      const lack = inflight.add(chunk.length);
      if (lack) throw noRoom(lack, random);
      scan?.feed(chunk);
    };
    const bytes = await receiveBody(payload, maxBytesOf(request.record, limits), take);
    request.record.bodyRead(bytes.length);
    return { bytes, scan, singleKeys } satisfies ReceivedBody;
  });
}

/** What translating a request's body works with. */
export type TranslationDeps = {
  /** Translates bodies. */
  readonly translator: Translator;
  /** Knows which models the caller can use. */
  readonly models: ModelDirectory;
  /** Knows whether memory has room for translating one. */
  readonly overload: OverloadManager;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Returns for how long deltas of a stream are held now to be written together, in milliseconds: up to 1,000. */
  readonly joinMs: () => number;
};

/**
 * Checks the body of a request and translates it for an engine. The body is taken away from the request, which lives
 * for as long as its answer: a big body must not. `signal` is aborted when the caller has left. Throws `ApiError`.
 */
export async function translateBody(
  request: FastifyRequest,
  signal: AbortSignal,
  deps: TranslationDeps,
): Promise<Translated> {
  const received = request.body as ReceivedBody | undefined; // made by the one parser of bodies, above
  request.body = undefined;
  const operation = routeOf(request)?.operation;
  if (!operation) throw new Error("a body without a route is not translated");
  return translateReceived(
    received,
    { operation, record: request.record, principal: principalOf(request) },
    signal,
    deps,
  );
}

/** Whose body is translated, and what kind of body it is. */
export type BodyOrder = {
  /** The operation of the route or the method that the body was sent to. */
  readonly operation: string;
  /** The record of the request that the body is of. */
  readonly record: Pick<RequestRecord, "requestId">;
  /** The owner of the key of the request. */
  readonly principal: Principal;
};

/** Checks a body that has arrived, and translates it for an engine, as `translateBody` says. */
export async function translateReceived(
  received: ReceivedBody | undefined,
  { operation, record, principal }: BodyOrder,
  signal: AbortSignal,
  { translator, models, overload, random, joinMs }: TranslationDeps,
): Promise<Translated> {
  const bodyBytes = received?.bytes.length ?? 0;
  const lacking = overload.lacksFor(bodyBytes);
  if (lacking) throw inTrouble(LACKING[lacking], random);
  const { tenant, routingKey, cacheSalt, limits } = principal;
  const { requestId } = record;
  const usableModels = models.usable(principal).map(({ id }) => id);
  const { maxOutputTokens } = limits;
  const caller = { requestId, tenant, routingKey, cacheSalt, maxOutputTokens, usableModels };
  const endTranslation = overload.beginTranslation(bodyBytes);
  try {
    return await translator.translate(received, { operation, caller, bodyBytes, joinMs: joinMs() }, signal);
  } catch (error) {
    if (!(error instanceof WorkNotDone)) throw error;
    if (error.why === "given_up") throw inTrouble("translation_given_up", random);
    throw bodyBrokeOff();
  } finally {
    endTranslation();
  }
}

/** Makes the error for a body that found no room. */
export function noRoom(lack: NoRoom, random: () => number): ApiError {
  if (lack !== "key_body_bytes") return inTrouble(LACKING[lack], random);
  const { retryAfterMs = 0 } = inTrouble("key_body_bytes_exceeded", random);
  const text = "The requests of this key that are on their way are too large together. Please try again shortly.";
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs,
    detail: "key_body_bytes_exceeded",
  });
}

/** Returns the size of the largest body that a request may have, in bytes. */
export function maxBytesOf(
  { principal }: Pick<RequestRecord, "principal">,
  { maxBodyBytes }: Pick<BodyLimits, "maxBodyBytes">,
): number {
  return Math.min(maxBodyBytes, principal?.limits.maxBodyBytes ?? maxBodyBytes);
}
