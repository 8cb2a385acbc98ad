import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chat } from "../../../gateway/formats/chat/request.ts";
import type { CanonicalRequest, Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { CONTEXT } from "../events/encoding-context.ts";

const FOLDER = join(import.meta.dirname, "../../agent-requests");
const FORMATS: Readonly<Record<string, Format>> = {
  "/v1/chat/completions": chat,
  "/v1/messages": messages,
  "/v1/responses": responses,
};

export type Recorded = { readonly name: string; readonly request: CanonicalRequest };

/** Under these settings a gateway takes all that agents send, and a model without images. */
export const RECORDED_CONTEXT = {
  ...CONTEXT,
  settings: { ...CONTEXT.settings, unsupportedTools: "skip" as const, unreadableContent: "placeholder" as const },
  acceptsImages: () => false,
};

/** Returns the recorded requests of agents as the gateway forwards them; those that are refused are left out. */
export function recordedRequests(): readonly Recorded[] {
  return readdirSync(FOLDER).flatMap(recordedIn);
}

/** Returns the body of a recorded request. */
export function recordedBody(name: string) {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8")).body;
}

function recordedIn(file: string): readonly Recorded[] {
  const { path, body, expect: expected } = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  const format = FORMATS[path.split("?")[0]];
  const isRefused = expected.status !== 200 && !file.startsWith("codex-");
  if (!format || isRefused) return [];
  // Some name a model of a vendor, for which a gateway has an alias.
  const { request } = format.prepare({ ...body, model: "svc-qwen" }, RECORDED_CONTEXT);
  return [{ name: file.replace(".json", ""), request }];
}
