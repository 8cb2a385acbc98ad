import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { stringify } from "yaml";
import { CATALOG } from "../../gateway/catalog.ts";
import { issueLocalKey } from "../../gateway/keys/local-key.ts";
import { readPrivateFile, writePrivateFile } from "../runtime/files/private-file.ts";
import type { LocalOptions } from "./options.ts";

/** Milliseconds for running answers after Ctrl-C: short, because this runs on a developer's machine. */
const DRAIN_TIMEOUT_MS = 5_000;

/** The files of a local start; all of them can be deleted. */
export type State = {
  /** Path of the state folder, which holds all other files. */
  readonly folder: string;
  /** Path of the key file. */
  readonly keyFile: string;
  /** Path of the file with the text of the local API key. */
  readonly localKeyFile: string;
  /** Path of the file with the 32 random bytes of the gateways' sealing key. */
  readonly sealingKeyFile: string;
};

/** Resolves to the files of the start in `folder`, which must exist; creates the sealing key if it is missing. */
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

/** Resolves to the text of the local API key: that of an earlier start if it is still valid, or of a new key. */
export async function localKey(state: State, signal: AbortSignal): Promise<string> {
  const existing = (await readPrivateFile(state.localKeyFile))?.toString("utf8").trim();
  const key = await issueLocalKey({ file: state.keyFile, existing, nowMs: Date.now() }, signal);
  if (key !== existing) await writePrivateFile(state.localKeyFile, `${key}\n`);
  return key;
}

/** Number of an engine node, from 1, with its gRPC and metrics ports; port 0: any free one. */
export type EnginePlace = { readonly index: number; readonly port: number; readonly metricsPort: number };

/** Writes the configuration of an engine node. Resolves to the path of the file. */
export async function writeEngineConfig(
  state: State,
  options: LocalOptions,
  backend: object,
  { index, port, metricsPort }: EnginePlace,
): Promise<string> {
  return writeConfig(state, `engine-${index}.yaml`, {
    nodeId: `engine-${index}`,
    models: CATALOG.map(({ id }) => id),
    listen: { port },
    metrics: { port: metricsPort },
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel },
    backend,
  });
}

/** Public and admin ports of the gateway; 0: any free one. */
export type GatewayPlace = { readonly port: number; readonly adminPort: number };

/**
 * Writes the configuration of the gateway for the nodes at `engines`, each `host:port`. Resolves to the path of the
 * file.
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
