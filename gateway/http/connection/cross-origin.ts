import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";

/** The longest time, in seconds, for which Chromium remembers the answer to a preflight request. */
const MAX_AGE_S = 7_200;

/**
 * Lets pages of the allowed origins call the API and read its replies (CORS), without cookies; `*` allows all. Answers
 * their preflight requests, and returns whether it did. Throws `ApiError` for a preflight request of another origin.
 */
export function answerOrigin(allowed: readonly string[], { method, headers }: FastifyRequest, reply: FastifyReply) {
  const { origin } = headers;
  if (origin === undefined) return false;
  const preflight = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
  if (allowed.includes(origin) || allowed.includes("*")) {
    reply.headers({ "access-control-allow-origin": origin, "access-control-expose-headers": "*", vary: "origin" });
    if (!preflight) return false;
    reply.headers({
      "access-control-allow-methods": "GET, HEAD, POST",
      // The star does not include `authorization`.
      "access-control-allow-headers": "authorization, *",
      "access-control-max-age": MAX_AGE_S,
    });
    reply.code(204).send();
    return true;
  }
  if (!preflight) return false;
  const text =
    "Pages of this origin may not call this API: its operator has not named the origin in listen.allowOrigins.";
  throw new ApiError("permission_denied", text, { detail: "origin_not_allowed" });
}
