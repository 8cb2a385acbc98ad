import { parseBody } from "../../../gateway/json/json-body.ts";
import { type JsonLimits, JsonScan } from "../../../gateway/json/json-scan.ts";
import { DEFAULT_JSON_LIMITS } from "./default-settings.ts";

/** Parses a body as the gateway does if it arrives in one piece. */
export function parseJsonBody(body: Buffer, limits: JsonLimits = DEFAULT_JSON_LIMITS): object {
  const scan = new JsonScan(["model", "messages", "stream", "max_tokens", "input"], limits);
  scan.feed(body);
  return parseBody(body, scan);
}
