import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { CATALOG } from "../../gateway/catalog.ts";
import { issueLocalKey } from "../../gateway/keys/local-key.ts";
import { errnoOf } from "../runtime/files/errno.ts";
import { writePrivateFile } from "../runtime/files/private-file.ts";
import type { LocalModel } from "./model.ts";
import type { LocalOptions } from "./options.ts";

/** Ctrl-C at a desk: running answers get a moment, not ten minutes. */
const DRAIN_TIMEOUT_MS = 5_000;

/** Files of one local start; all of them can be thrown away. */
export type State = {
  readonly folder: string;
  readonly keyFile: string;
  /** Path of the file that holds the text of the ready-made key. */
  readonly localKeyFile: string;
  readonly sealingKeyFile: string;
};

export async function openState(folder: string): Promise<State> {
  const state = {
    folder,
    keyFile: join(folder, "keys.json"),
    localKeyFile: join(folder, "local-key"),
    sealingKeyFile: join(folder, "sealing-key"),
  };
  if ((await read(state.sealingKeyFile)) === undefined) await writePrivateFile(state.sealingKeyFile, randomBytes(32));
  return state;
}

/** The ready-made key: the one of an earlier start, or a new one. */
export async function localKey(state: State, signal: AbortSignal): Promise<string> {
  const existing = (await read(state.localKeyFile))?.toString("utf8").trim();
  const key = await issueLocalKey({ file: state.keyFile, existing, nowMs: Date.now() }, signal);
  if (key !== existing) await writePrivateFile(state.localKeyFile, `${key}\n`);
  return key;
}

export async function writeEngineConfig(
  state: State,
  options: LocalOptions,
  model: LocalModel,
  index: number,
  port: number,
): Promise<string> {
  return writeConfig(state, `engine-${index}.yaml`, {
    nodeId: `engine-${index}`,
    models: CATALOG.map(({ id }) => id),
    listen: { port },
    metrics: { port: 0 },
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel },
    backend: model,
  });
}

/** One of the gateway workers: `index` from 1. */
export type WorkerPlace = { readonly index: number; readonly port: number; readonly adminPort: number };

export async function writeGatewayConfig(
  state: State,
  options: LocalOptions,
  engines: readonly string[],
  { index, port, adminPort }: WorkerPlace,
): Promise<string> {
  const endpoints = engines.map((address) => ({ address }));
  return writeConfig(state, `gateway-${index}.yaml`, {
    listen: { port },
    admin: { port: adminPort },
    worker: { index, count: options.gateways },
    keys: { file: state.keyFile },
    sealingKeyFile: state.sealingKeyFile,
    clusters: CATALOG.map(({ id }) => ({ model: id, endpoints })),
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel },
  });
}

async function writeConfig(state: State, name: string, config: object): Promise<string> {
  const file = join(state.folder, name);
  await writeFile(
    file,
    `# Written by npm start, anew each time.\n${stringify(config, { aliasDuplicateObjects: false })}`,
  );
  return file;
}

async function read(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
