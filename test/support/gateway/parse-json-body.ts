import { parseBody, scanBody } from "../../../gateway/json/json-body.ts";

/** Parses a body as the gateway does. */
export function parseJsonBody(body: Buffer): object {
  return parseBody(scanBody(body, ["model", "messages", "stream", "max_tokens", "input"]));
}
