import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../../errors.ts";
import { atOnce } from "../at-once.ts";

/** Headers that may carry the version, the service's own name first; official clients send the other. */
const HEADERS = ["vendor-version", "anthropic-version"] as const;

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Checks the version header of a Format B request. A missing header means the default version, and every date is
 * accepted, because no behaviour depends on it. Throws ApiError `invalid_value` for any other value.
 */
export function checkApiVersion(headers: IncomingHttpHeaders): void {
  const name = HEADERS.find((header) => headers[header] !== undefined);
  if (name === undefined || DATE.test(String(headers[name]))) return;
  throw new ApiError("invalid_value", `${name}: expected a date of the form YYYY-MM-DD.`, {
    detail: "api_version_malformed",
  });
}

/** Makes every route of this context check its version header. */
export function takeApiVersion(app: FastifyInstance): void {
  app.addHook(
    "onRequest",
    atOnce(({ headers }) => checkApiVersion(headers)),
  );
}
