import { parseBody, scanBody } from "../../../gateway/json/json-body.ts";

export function parseJsonBody(body: Buffer): object {
  return parseBody(scanBody(body, ["model", "messages", "stream", "max_tokens", "input"]));
}
