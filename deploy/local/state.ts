import { randomBytes } from "node:crypto";
import { lstat, mkdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { stringify } from "yaml";
import { CATALOG, type Catalog } from "../../gateway/catalog.ts";
import { FileKeyVault } from "../../gateway/keys/file-key-vault.ts";
import { createKey } from "../../gateway/keys/key-admin.ts";
import type { KeySetChanger } from "../../gateway/keys/key-file.ts";
import { indexKeys } from "../../gateway/keys/key-index.ts";
import { withFileLock } from "../runtime/files/file-lock.ts";
import { errnoOf, FileError, readPrivateFile, writePrivateFile } from "../runtime/files/private-file.ts";
import { agentAliases } from "./launch/agents.ts";
import { weightsOf } from "./model.ts";
import type { LocalOptions } from "./options.ts";

/** Milliseconds for running answers after Ctrl-C: short, because this runs on a developer's machine. */
const DRAIN_TIMEOUT_MS = 5_000;

export type State = {
  readonly folder: string;
  readonly keyFile: string;
  readonly localKeyFile: string;
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

/** Resolves to an unlimited key for all models: that of an earlier start while it still opens them, or a new one. */
export async function localKey({ keyFile, localKeyFile }: State, signal: AbortSignal): Promise<string> {
  const existing = (await readPrivateFile(localKeyFile))?.toString("utf8").trim() ?? "";
  const nowMs = Date.now();
  const issue: KeySetChanger<string> = (set, pepper) => {
    const found = indexKeys(set, pepper).look(existing, nowMs);
    if ("principal" in found && found.principal.models === "all") return { set, value: existing };
    const made = createKey(set, { name: "local" }, pepper, nowMs);
    return { set: made.set, value: made.value.key };
  };
  const key = await new FileKeyVault(keyFile, signal).update(true, [], issue);
  if (key !== existing) await writePrivateFile(localKeyFile, `${key}\n`);
  return key;
}

/** Number of an engine node, from 1, with its gRPC and metrics ports; port 0: any free one. */
export type EnginePorts = { readonly index: number; readonly port: number; readonly metricsPort: number };

export async function writeEngineConfig(
  state: State,
  options: LocalOptions,
  backend: object,
  { index, port, metricsPort }: EnginePorts,
): Promise<string> {
  return writeConfig(state, `engine-${index}.yaml`, {
    nodeId: `engine-${index}`,
    models: localCatalog(options).models.map(({ id }) => id),
    listen: { port },
    metrics: { port: metricsPort },
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel, format: options.logFormat },
    backend,
  });
}

/** Ports of the gateway, 0 for any free one; without `grpcPort` it has no gRPC listener. */
export type GatewayPorts = {
  readonly port: number;
  readonly adminPort: number;
  readonly grpcPort?: number | undefined;
};

/** Writes the configuration of the gateway for the nodes at `engines`, each `host:port`; resolves to its path. */
export async function writeGatewayConfig(
  state: State,
  options: LocalOptions,
  engines: readonly string[],
  { port, adminPort, grpcPort }: GatewayPorts,
): Promise<string> {
  const endpoints = engines.map((address) => ({ address }));
  const { host, allowOrigin: allowOrigins } = options;
  const address = host === undefined ? {} : { host };
  return writeConfig(state, "gateway.yaml", {
    listen: { ...address, port, ...(allowOrigins && { allowOrigins }) },
    ...(grpcPort !== undefined && { grpc: { ...address, port: grpcPort } }),
    admin: { port: adminPort },
    tryIt: {},
    keys: { file: state.keyFile },
    sealingKeyFile: state.sealingKeyFile,
    formats: {
      messages: { systemRole: options.agents ? "merge" : options.systemRole },
      responses: { unsupportedTools: options.agents ? "skip" : "reject" },
    },
    catalog: localCatalog(options),
    clusters: localCatalog(options).models.map(({ id }) => ({ model: id, endpoints })),
    drainGraceMs: options.drainGrace * 1_000,
    drainTimeoutMs: DRAIN_TIMEOUT_MS,
    log: { level: options.logLevel, format: options.logFormat },
  });
}

/** Returns the models of a start, whose names say which weights answer. The ids of the catalog stay good under another name. */
function localCatalog({ model, modelName, agents }: LocalOptions): Catalog {
  const weights = weightsOf(model);
  if (modelName === undefined) {
    const models = CATALOG.map((listed) => ({
      ...listed,
      displayName: `${weights}, stands in for ${listed.displayName}`,
    }));
    return { models, aliases: agents ? agentAliases({ model: "svc-glm53", smallModel: "svc-qwen" }) : {} };
  }
  const { contextWindow } = CATALOG[0] ?? { contextWindow: 1 };
  const others = CATALOG.map(({ id }) => id).filter((id) => id !== modelName);
  const ofAgents = agents ? agentAliases({ model: modelName, smallModel: modelName }) : {};
  return {
    models: [{ id: modelName, contextWindow, displayName: weights }],
    aliases: { ...ofAgents, ...Object.fromEntries(others.map((id) => [id, modelName])) },
  };
}

async function writeConfig(state: State, name: string, config: object): Promise<string> {
  const file = join(state.folder, name);
  await writePrivateFile(
    file,
    `# Written by npm start, anew each time.\n${stringify(config, { aliasDuplicateObjects: false })}`,
  );
  return file;
}

/** Milliseconds in which the lock of a killed start is taken over. */
const TAKE_OVER_MS = 250;

export class StateFolderError extends Error {
  override readonly name = "StateFolderError";
}

const WRITABLE_BY_OTHERS = 0o022;

/**
 * Creates the state folder if it is missing; resolves to its absolute path. Throws `StateFolderError` if another user
 * could have prepared it, with a known sealing key or with other engines.
 */
export async function stateFolder(stateDir: string): Promise<string> {
  const folder = resolve(stateDir);
  try {
    await makeFolder(folder);
    const { uid, mode } = await lstat(folder);
    // Only on systems with owners and modes.
    const us = process.getuid?.();
    if (us !== undefined && uid !== us) throw new StateFolderError(`--state-dir: ${folder} belongs to another user`);
    if (us !== undefined && (mode & WRITABLE_BY_OTHERS) !== 0)
      throw new StateFolderError(`--state-dir: ${folder} is writable by other users; its mode should be 0700`);
  } catch (cause) {
    if (cause instanceof StateFolderError) throw cause;
    throw new StateFolderError(`--state-dir: ${folder} cannot be made (${errnoOf(cause)})`, { cause });
  }
  return folder;
}

/** Creates a folder and its missing parents: the recursive mkdir of Node never ends on `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (cause) {
    const errno = errnoOf(cause);
    if (errno === "EEXIST" && (await stat(folder)).isDirectory()) return;
    if (errno !== "ENOENT" || dirname(folder) === folder) throw cause;
    await makeFolder(dirname(folder));
    await mkdir(folder, { mode: 0o700 });
  }
}

/** Runs `run` as the only start in `folder`. Throws `StateFolderError` before `run` if another start uses the folder. */
export async function ownState<T>(folder: string, run: () => Promise<T>): Promise<T> {
  const file = join(folder, "start.lock");
  let owned = false;
  const begin = () => {
    owned = true;
    return run();
  };
  try {
    return await withFileLock(file, begin, AbortSignal.timeout(TAKE_OVER_MS));
  } catch (error) {
    if (owned || !(error instanceof FileError) || error.fault !== "locked") throw error;
    const hint = `stop it or choose another --state-dir; if none runs, remove ${file}`;
    throw new StateFolderError(`--state-dir: another start uses ${folder}; ${hint}`, { cause: error });
  }
}
