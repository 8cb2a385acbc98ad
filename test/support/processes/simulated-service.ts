import { type BodyReader, readBody } from "../http/read-until.ts";
import { processesWith } from "./processes-with.ts";
import { type Service, type StartOptions, startService } from "./start-service.ts";

/** Runs `npm start` with a simulated engine of 50 tokens a second. */
export function startSimulated(options: StartOptions = {}): Promise<Service> {
  return startService([0, 0, 0], options, "test/support/engine/start.js");
}

export async function adminText(service: Service, path: string, method = "GET"): Promise<string | undefined> {
  const response = await fetch(`${service.adminUrl}${path}`, { method }).catch(() => undefined);
  return response?.text();
}

export async function isLive(service: Service): Promise<boolean> {
  return (await adminText(service, "/ready")) === "LIVE\n";
}

export type OpenStream = { readonly response: Response; readonly body: BodyReader };

/** Opens a stream of so many tokens, over a new connection. Resolves when its first delta has arrived. */
export async function openStream(service: Service, tokens: number): Promise<OpenStream> {
  const response = await ask(service, { stream: true, max_tokens: tokens });
  const body = readBody(response);
  if (response.ok) await body.until((text) => /"content":"[^"]/.test(text));
  return { response, body };
}

export function ask(service: Service, fields: object): Promise<Response> {
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], ...fields };
  return service.post("/v1/chat/completions", body, { connection: "close" });
}

export async function endOfStream({ body }: OpenStream): Promise<"complete" | "error" | "cut"> {
  const text = await body.toEnd().catch(() => undefined);
  if (text === undefined || !text.trimEnd().endsWith("data: [DONE]")) return "cut";
  return text.includes('"error":') ? "error" : "complete";
}

/** Returns the process id of the gateway; on Linux only. */
export function gatewayProcess({ stateDir }: Service): number {
  const [pid] = processesWith(`${stateDir}/gateway.yaml`);
  if (pid === undefined) throw new Error("there is no gateway");
  return pid;
}
