import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { stringify } from "yaml";
import { CATALOG } from "../../gateway/catalog.ts";
import { issueLocalKey } from "../../gateway/keys/local-key.ts";
import { readPrivateFile, writePrivateFile } from "../runtime/files/private-file.ts";
import type { LocalModel } from "./model.ts";
import type { LocalOptions } from "./options.ts";

/** The milliseconds that running answers get after Ctrl-C: at a desk a moment, not ten minutes. */
const DRAIN_TIMEOUT_MS = 5_000;

/** The files of a local start; all of them can be thrown away. */
export type State = {
  /** The path of the state folder, which holds all other files. */
  readonly folder: string;
  /** The path of the file with the records of all API keys. */
  readonly keyFile: string;
  /** The path of the file that holds the text of the ready-made API key. */
  readonly localKeyFile: string;
  /** The path of the file with the 32 random bytes by which gateways seal what callers carry for them. */
  readonly sealingKeyFile: string;
};

/** Resolves to the files of the start in `folder`, which has to be there, and makes the sealing key where it is missing. */
export async function openState(folder: string): Promise<State> {
  const state = {
    folder,
    keyFile: join(folder, "keys.json"),
    localKeyFile: join(folder, "local-key"),
    sealingKeyFile: join(folder, "sealing-key"),
  };
  if ((await readPrivateFile(state.sealingKeyFile)) === undefined)
    await writePrivateFile(state.sealingKeyFile, randomBytes(32));
  return state;
}

/**
 * Resolves to the text of the ready-made API key: that of an earlier start, or of a new key where there is none that is
 * still valid.
 */
export async function localKey(state: State, signal: AbortSignal): Promise<string> {
  const existing = (await readPrivateFile(state.localKeyFile))?.toString("utf8").trim();
  const key = await issueLocalKey({ file: state.keyFile, existing, nowMs: Date.now() }, signal);
  if (key !== existing) await writePrivateFile(state.localKeyFile, `${key}\n`);
  return key;
}

/** The number of an engine node, from 1, with its gRPC port and that of its metrics; port 0 stands for any free one. */
export type EnginePlace = { readonly index: number; readonly port: number; readonly metricsPort: number };

/** Writes the configuration of an engine node. Resolves to the path of the file. */
export async function writeEngineConfig(
  state: State,
  options: LocalOptions,
  model: LocalModel,
  { index, port, metricsPort }: EnginePlace,
): Promise<string> {
  return writeConfig(state, `engine-${index}.yaml`, {
    nodeId: `engine-${index}`,
    models: CATALOG.map(({ id }) => id),
    listen: { port },
    metrics: { port: metricsPort },
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel },
    backend: model,
  });
}

/** The public port of the gateway and that of its admin listener; 0 stands for any free one. */
export type GatewayPlace = { readonly port: number; readonly adminPort: number };

/**
 * Writes the configuration of the gateway in front of the nodes at `engines`, each `host:port`. Resolves to the path of
 * the file.
 */
export async function writeGatewayConfig(
  state: State,
  options: LocalOptions,
  engines: readonly string[],
  { port, adminPort }: GatewayPlace,
): Promise<string> {
  const endpoints = engines.map((address) => ({ address }));
  return writeConfig(state, "gateway.yaml", {
    listen: { port },
    admin: { port: adminPort },
    tryIt: {},
    keys: { file: state.keyFile },
    sealingKeyFile: state.sealingKeyFile,
    clusters: CATALOG.map(({ id }) => ({ model: id, endpoints })),
    drainGraceMs: options.drainGrace * 1_000,
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel },
  });
}

async function writeConfig(state: State, name: string, config: object): Promise<string> {
  const file = join(state.folder, name);
  await writePrivateFile(
    file,
    `# Written by npm start, anew each time.\n${stringify(config, { aliasDuplicateObjects: false })}`,
  );
  return file;
}
