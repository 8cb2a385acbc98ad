import { join, resolve } from "node:path";
import * as z from "zod";
import { meant } from "../../runtime/config/config-faults.ts";
import { errnoOf, readPrivateFile } from "../../runtime/files/private-file.ts";
import { projectFolder } from "../../runtime/files/project-folder.ts";
import { isLoopback } from "../../runtime/net/loopback.ts";
import type { ModelAccess } from "./agents.ts";

/** Exit codes of `svc launch` besides those of the agent. */
export const EXIT = { service: 1, usage: 2, notInstalled: 127 } as const;

/** An agent cannot be started. The message is a line that ends in the remedy. */
export class LaunchError extends Error {
  override readonly name = "LaunchError";
  readonly exitCode: number;

  constructor(exitCode: number, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** A service to ask. `key`: default that of `npm start`, in `stateDir`; `model`: default the first of the key. */
export type Asked = {
  readonly url: string;
  readonly key?: string;
  readonly stateDir: string;
  readonly model?: string;
  readonly smallModel?: string;
};

/** The least window in tokens: the first prompt of most agents has 5,000 to 21,000. */
export const LEAST_FOR_AGENTS = 16_384;

/** Milliseconds within which a service lists its models. */
const ANSWER_MS = 10_000;

const listSchema = z.object({ data: z.array(z.object({ id: z.string(), context_length: z.int() })) });

/** Resolves to the address, key and limits of a model at the service. Throws `LaunchError`. */
export async function findModelAccess({ url, model, smallModel, ...asked }: Asked): Promise<ModelAccess> {
  const baseUrl = url.replace(/\/+(?:v1\/*)?$/, "");
  const key = asked.key ?? (await keyOfStart(baseUrl, asked.stateDir));
  const { data } = await modelsOf(baseUrl, key);
  const [first] = data;
  if (first === undefined)
    throw new LaunchError(
      EXIT.service,
      `no model of this key is ready at ${baseUrl}: wait for a node, or take another key`,
    );
  const chosen = (flag: string, id: string) => {
    const found = data.find((one) => one.id === id);
    if (found) return found;
    const ids = data.map((one) => one.id);
    throw new LaunchError(EXIT.usage, `${flag}: this key has no ${id}${meant(id, ids)}; it has ${ids.join(", ")}`);
  };
  const { id, context_length: contextTokens } = model === undefined ? first : chosen("--model", model);
  if (contextTokens < LEAST_FOR_AGENTS)
    throw new LaunchError(
      EXIT.service,
      `${id} has a window of ${contextTokens} tokens, too small for agents: serve other weights (npm start -- --agents --model FILE)`,
    );
  const small = smallModel === undefined ? id : chosen("--small-model", smallModel).id;
  return { baseUrl, key, model: id, smallModel: small, contextTokens };
}

/** Resolves to the key that `npm start` wrote; it is sent to this machine only. */
async function keyOfStart(baseUrl: string, stateDir: string): Promise<string> {
  const local = URL.canParse(baseUrl) && isLoopback(new URL(baseUrl).hostname);
  const folders = local ? [resolve(stateDir), join(projectFolder(), ".svc")] : [];
  for (const folder of folders) {
    const key = (await readPrivateFile(join(folder, "local-key")))?.toString("utf8").trim();
    if (key) return key;
  }
  throw new LaunchError(
    EXIT.usage,
    `there is no key: name one by --key or SVC_API_KEY${local ? ", or the state folder of npm start by --state-dir" : ""}`,
  );
}

async function modelsOf(baseUrl: string, key: string): Promise<z.infer<typeof listSchema>> {
  const reply = await get(`${baseUrl}/v1/models`, key);
  if (reply.status === 401 || reply.status === 403)
    throw new LaunchError(
      EXIT.service,
      `${baseUrl} refuses the key (${reply.status}): name another by --key or SVC_API_KEY`,
    );
  const list = listSchema.safeParse(await reply.json().catch(() => undefined));
  if (reply.ok && list.success) return list.data;
  throw new LaunchError(
    EXIT.service,
    `${baseUrl} lists no models (${reply.status}): name the service by --url, without /v1`,
  );
}

/** Resolves to the reply to a GET. Throws `LaunchError` where there is none. */
export async function get(url: string, key: string): Promise<Response> {
  const headers = { authorization: `Bearer ${key}` };
  try {
    return await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (cause) {
    const reason = (cause instanceof Error && errnoOf(cause.cause)) || "no answer";
    throw new LaunchError(
      EXIT.service,
      `no service at ${new URL(url).origin} (${reason}): start one by npm start -- --agents, or name it by --url`,
      { cause },
    );
  }
}
