import { becomes } from "../becomes.ts";
import { type BodyReader, readBody } from "../http/read-until.ts";
import { metricSum } from "../metric-text.ts";
import { processesWith } from "./processes-with.ts";
import { type Service, type StartOptions, startService } from "./start-service.ts";

/** Runs `npm start` with three gateway workers in front of a simulated engine that writes 50 tokens a second. */
export function startWorkers(options: StartOptions = {}): Promise<Service> {
  const args = ["--model", "simulator", "--gateways", "3", ...(options.args ?? [])];
  return startService([0, 0, 0], { ...options, args });
}

/** Returns what `/live` of a worker says of it; undefined when the worker does not answer. */
export async function liveOf(adminUrl: string) {
  const response = await fetch(`${adminUrl}/live`).catch(() => undefined);
  if (!response?.ok) return undefined;
  const live = (await response.json()) as {
    readonly state: string;
    readonly uptimeMs: number;
    readonly worker: { readonly index: number; readonly count: number };
    readonly clusters: readonly { readonly active: number }[];
  };
  return { ...live, active: live.clusters.reduce((sum, { active }) => sum + active, 0) };
}

/** Returns the number of generations that each worker answers now, in the order of the workers. */
export async function activeByWorker({ adminUrls }: Service): Promise<number[]> {
  return Promise.all(adminUrls.map(async (adminUrl) => (await liveOf(adminUrl))?.active ?? 0));
}

/** A streamed answer that has begun, and the reader of its body. */
export type OpenStream = { readonly response: Response; readonly body: BodyReader };

/** Opens a stream of so many tokens, over a connection of its own. Resolves when its first delta has come. */
export async function openStream(service: Service, tokens: number, key = service.key): Promise<OpenStream> {
  const response = await ask(service, { stream: true, max_tokens: tokens }, key);
  const body = readBody(response);
  if (response.ok) await body.until((text) => /"content":"[^"]/.test(text));
  return { response, body };
}

/** Sends a chat completion over a connection of its own, so that any worker may get it. */
export function ask(service: Service, fields: object, key = service.key): Promise<Response> {
  const body = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }], ...fields };
  return service.post("/v1/chat/completions", body, { connection: "close", authorization: `Bearer ${key}` });
}

/** Opens streams of so many tokens until each worker has at least one. */
export async function streamsOnAll(service: Service, tokens: number): Promise<readonly OpenStream[]> {
  const streams: OpenStream[] = [];
  while ((await activeByWorker(service)).includes(0)) streams.push(await openStream(service, tokens));
  return streams;
}

/** Resolves to how a stream ended: whole, in an error frame, or cut. */
export async function endOfStream({ body }: OpenStream): Promise<"complete" | "error" | "cut"> {
  const text = await body.toEnd().catch(() => undefined);
  if (text === undefined || !text.trimEnd().endsWith("data: [DONE]")) return "cut";
  return text.includes('"error":') ? "error" : "complete";
}

/** Returns the process id of the worker `index`, from 1. */
export function workerProcess(service: Service, index: number): number {
  const [pid] = processesWith(workerFile(service, index));
  if (pid === undefined) throw new Error(`there is no worker ${index}`);
  return pid;
}

/** Resolves when a process other than `former` is the worker `index`, from 1, and serves. */
export function untilWorkerIsNew(service: Service, index: number, former: number): Promise<void> {
  const adminUrl = service.adminUrls[index - 1] ?? "";
  const isNew = () => {
    const [pid = former] = processesWith(workerFile(service, index));
    return pid !== former;
  };
  return becomes(async () => isNew() && (await liveOf(adminUrl))?.state === "LIVE", `worker ${index} is there again`);
}

/** The configuration of a worker, which its command line names. */
function workerFile({ stateDir }: Service, index: number): string {
  return `${stateDir}/gateway-${index}.yaml`;
}

/** Makes a further key that all workers know. */
export async function createKey(service: Service, ...limits: readonly string[]): Promise<string> {
  const known = async () => {
    const texts = await Promise.all(service.adminUrls.map(async (url) => (await fetch(`${url}/stats`)).text()));
    return texts.map((text) => metricSum(text, "svc_keystore_keys"));
  };
  const before = Math.max(...(await known()));
  const made = await service.keys("create", "--name", "limited", "--models", "*", "--json", ...limits);
  const { key } = JSON.parse(made) as { readonly key: string };
  await becomes(async () => (await known()).every((keys) => keys > before), "all workers know the key");
  return key;
}
