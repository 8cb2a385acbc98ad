import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { type JsonLimits, JsonScan } from "../../json/json-scan.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import { inTrouble } from "../access/overload.ts";
import { bodyTooLarge } from "../access/request-hygiene.ts";
import { routeOf } from "../request-context.ts";
import { receiveBody } from "./body-upload.ts";
import { parseFrom } from "./json-body.ts";

/** The detail token for each resource that has no room for a body. */
const LACKING = {
  inflight_body_bytes: "overload_inflight_body_bytes",
  fixed_heap: "overload_fixed_heap",
} as const;

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

/**
 * Refuses requests of this context for the body that their head announces, before a byte of it is read: one that is too
 * large, or that memory has no room for. For routes with a key.
 */
export function limitBodies(app: FastifyInstance, limits: BodyLimits): void {
  app.addHook("onRequest", async ({ raw, record }) => {
    const announced = Number(raw.headers["content-length"] ?? 0);
    if (announced > maxBytesOf(record, limits)) throw bodyTooLarge();
    const lacking = limits.overload.lacksFor(announced);
    if (lacking) throw inTrouble(LACKING[lacking], limits.random);
  });
}

/** Makes `app` read and parse the body of every request that has one and a route. */
export function parseBodies(app: FastifyInstance, limits: BodyLimits): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (request: FastifyRequest, payload: IncomingMessage) => {
    // Whoever has no key must not be able to fill the room that bodies have together.
    if (request.is404) return undefined;
    const inflight = limits.overload.bodies.begin();
    const scan = new JsonScan(routeOf(request)?.singleKeys ?? [], limits.json);
    const take = (chunk: Buffer) => {
      if (!inflight.add(chunk.length)) throw inTrouble(LACKING.inflight_body_bytes, limits.random);
      scan.feed(chunk);
    };
    try {
      const bytes = await receiveBody(payload, maxBytesOf(request.record, limits), take);
      if (!limits.overload.mayParse(bytes.length)) throw inTrouble(LACKING.fixed_heap, limits.random);
      request.record.bodyRead(bytes.length);
      return await parseFrom(request.socket, bytes, scan);
    } finally {
      inflight.release();
    }
  });
}

function maxBytesOf({ principal }: FastifyRequest["record"], { maxBodyBytes }: BodyLimits): number {
  return Math.min(maxBodyBytes, principal?.limits.maxBodyBytes ?? maxBodyBytes);
}
