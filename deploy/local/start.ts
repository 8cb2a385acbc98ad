import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isKeyStoreError } from "../../gateway/keys/key-store.ts";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { isLoopback } from "../runtime/net/loopback.ts";
import { runMain } from "../runtime/process/run-main.ts";
import { StopOrders } from "../runtime/process/stop-orders.ts";
import { onAbort, untilAborted } from "../runtime/time/abort.ts";
import { systemClock } from "../runtime/time/clock.ts";
import { ChildFailed } from "./child.ts";
import { launchExitCode } from "./launch/launch.ts";
import { LEAST_FOR_AGENTS } from "./launch/model-access.ts";
import { findModel, ModelError } from "./model.ts";
import {
  enginePort,
  faultText,
  type LocalOptions,
  metricsPort,
  PortError,
  parseOptions,
  portFaults,
  wantedPorts,
} from "./options.ts";
import { startWithAgent } from "./start-with-agent.ts";
import {
  type GatewayPorts,
  localKey,
  openState,
  ownState,
  type State,
  StateFolderError,
  stateFolder,
  writeEngineConfig,
  writeGatewayConfig,
} from "./state.ts";
import { type Program, Supervisor } from "./supervisor.ts";

/*
 * `npm start` runs the same engine and gateway processes as any deployment, with configuration files for one machine.
 */

const HERE = dirname(fileURLToPath(import.meta.url));
const GATEWAY = join(HERE, "..", "..", "gateway", "main.js");
const ENGINE = join(HERE, "..", "..", "engine", "main.js");

/** The engines of a start: their program, and the `backend` of their configuration. */
export type Engines = {
  readonly program: string;
  readonly backendOf: (options: LocalOptions, folder: string) => Promise<object>;
};

const ENGINES: Engines = {
  program: ENGINE,
  backendOf: ({ model, contextTokens, engines, chatTemplate }, folder) =>
    findModel(projectFolder(), folder, model, contextTokens, engines, chatTemplate),
};

/** Milliseconds after which engines that are not ready are reported as loading. */
const SILENT_MS = 1_000;

const say = (text: string): void => console.error(text);

async function run(options: LocalOptions, engines: Engines): Promise<void> {
  const supervisor = new Supervisor(say);
  const orders = new StopOrders(systemClock.nowMs);
  orders.obeySignals();
  onAbort(orders.stopNow, () => supervisor.hurry());
  const { stop } = orders;
  const folder = await stateFolder(options.stateDir);
  const faults = await portFaults(wantedPorts(options));
  const owned = ownState(folder, async () => {
    if (faults.length > 0) throw new PortError(faults);
    const failed = bringUp(supervisor, folder, options, engines, stop).then(() => new Promise<never>(() => {}));
    try {
      await Promise.race([failed, untilAborted(stop)]);
    } finally {
      // A stopped start does not report its failure.
      failed.catch(() => {});
      if (stop.aborted) say("stopping");
      await supervisor.stop();
    }
  });
  await owned.catch((error: unknown) => {
    // A second start shares more with the first than its folder.
    if (error instanceof StateFolderError && faults.length > 0)
      throw new StateFolderError(`${error.message}\n${faultText(faults, "--state-dir .svc-2")}`, { cause: error });
    throw error;
  });
}

async function bringUp(
  supervisor: Supervisor,
  folder: string,
  options: LocalOptions,
  { program, backendOf }: Engines,
  stop: AbortSignal,
): Promise<void> {
  const state = await openState(folder);
  const backend = await backendOf(options, folder);
  const key = await localKey(state, stop);
  const notice = setTimeout(() => say("loading the model …"), SILENT_MS);
  const engines = await supervisor
    .start(
      Array.from({ length: options.engines }, (_, index) => engineProgram(program, state, options, backend, index)),
    )
    .finally(() => clearTimeout(notice));
  const addresses = engines.map((ready) => String(ready.address));
  const [gateway] = await supervisor.start([gatewayProgram(state, options, addresses, supervisor)]);
  const adminUrl = String(gateway?.adminUrl);
  await untilReady(adminUrl, stop);
  if (stop.aborted) return;
  const metricsUrls = engines.map(({ metricsPort: at }) => `http://127.0.0.1:${at}/metrics`);
  const ready = {
    baseUrl: reachable(String(gateway?.baseUrl)),
    adminUrl,
    ...(gateway?.grpcAddress !== undefined && { grpcAddress: reachable(String(gateway.grpcAddress)) }),
    engine: addresses[0],
    engineMetricsUrl: metricsUrls[0],
    ...(metricsUrls.length > 1 && { engineMetricsUrls: metricsUrls }),
    keyFile: state.localKeyFile,
  };
  announce(ready, key, options, await windowOf(ready.baseUrl, key));
}

/** Returns an address by which this machine reaches a listener, which may listen at all addresses. */
function reachable(address: string): string {
  return address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
}

/** Resolves to the context window that the gateway gives for the one model; undefined if it does not answer. */
async function windowOf(baseUrl: string, key: string): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${baseUrl}/v1/models`, { headers }).catch(() => undefined);
  const list = (await response?.json()) as { readonly data?: readonly { readonly context_length?: unknown }[] };
  const window: unknown = list?.data?.[0]?.context_length;
  return typeof window === "number" ? window : undefined;
}

/** Returns the lines about a window of `tokens`, and the command that sets an agent to it: `launch` with `flags`. */
export function windowLines(tokens: number, flags: string): string {
  const first = `Window    ${tokens} tokens, \`context_length\` of GET /v1/models`;
  if (tokens < LEAST_FOR_AGENTS) return `${first}: too small for coding agents`;
  const program = process.env.npm_lifecycle_event === "start" ? "npm run launch --" : "svc launch";
  return `${first}
Agents    ${program} claude${flags}     (or codex, opencode, …: with settings of its own)`;
}

function engineProgram(file: string, state: State, options: LocalOptions, backend: object, index: number): Program {
  let port = enginePort(options, index);
  return {
    ...{ name: `engine ${index + 1}`, file },
    config: () =>
      writeEngineConfig(state, options, backend, { index: index + 1, port, metricsPort: metricsPort(options, index) }),
    // A restarted node must have the address in the gateway's configuration.
    onReady({ address }) {
      port = Number(String(address).split(":").at(-1));
    },
  };
}

/** Returns the gateway's program, on whose order `supervisor` kills one of its engines, for a trial. */
function gatewayProgram(
  state: State,
  options: LocalOptions,
  engines: readonly string[],
  supervisor: Pick<Supervisor, "kill">,
): Program {
  let ports: GatewayPorts = options;
  return {
    ...{ name: "gateway", file: GATEWAY },
    config: () => writeGatewayConfig(state, options, engines, ports),
    // A restarted gateway must have the announced URLs.
    onReady({ baseUrl, adminUrl, grpcAddress }, child) {
      child.talk({ engines }, (order) => {
        if ("kill" in order) supervisor.kill(`engine ${engines.indexOf(String(order.kill)) + 1}`);
      });
      const grpcPort = grpcAddress === undefined ? undefined : Number(String(grpcAddress).split(":").at(-1));
      ports = { port: portOf(baseUrl), adminPort: portOf(adminUrl), grpcPort };
    },
  };
}

function portOf(url: unknown): number {
  return Number(new URL(String(url)).port || 80);
}

async function untilReady(adminUrl: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const response = await fetch(`${adminUrl}/readyz`, { signal }).catch(() => undefined);
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

type Announced = { readonly baseUrl: string; readonly adminUrl: string; readonly grpcAddress?: string };

function announce(ready: Announced, key: string, options: LocalOptions, window: number | undefined): void {
  const { host, stateDir, engines } = options;
  const nodes = `${join(stateDir, "engine-1.yaml")}${engines > 1 ? ` to engine-${engines}.yaml` : ""}`;
  const open = host !== undefined && !isLoopback(host);
  const url = ready.baseUrl === "http://127.0.0.1:8080" ? "" : ` --url ${ready.baseUrl}`;
  const flags = `${url}${stateDir === ".svc" ? "" : ` --state-dir ${stateDir}`}`;
  console.log(`
Base URL  ${ready.baseUrl}     (chat and responses SDKs: ${ready.baseUrl}/v1)
API key   ${key}
Try it    ${ready.baseUrl}/#key=${key}     (for a browser)
Admin     ${ready.adminUrl}     (for a browser)
Files     ${join(stateDir, "gateway.yaml")}, ${nodes}     (the configuration, to begin your own with)
${ready.grpcAddress ? `gRPC      ${ready.grpcAddress}\n` : ""}${open ? `Open      to other machines at ${host}, in plain text: keys and prompts can be read on the way\n` : ""}${window === undefined ? "" : `${windowLines(window, flags)}\n`}
curl ${ready.baseUrl}/v1/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' \\
  -d '{"model":"svc-qwen","messages":[{"role":"user","content":"Which endpoints does this API offer?"}],"temperature":0}'

Ctrl-C stops it.
`);
  // For programs that started this one.
  if (!process.stdout.isTTY) console.log(`ready ${JSON.stringify(ready)}`);
}

/** Runs `npm start` with the options `argv`. Resolves to the exit code, as `runMain` does. */
export function start(argv: readonly string[], engines: Engines = ENGINES): Promise<number> {
  return runMain({
    name: "start",
    exitCodeOf,
    run: async () => {
      const options = parseOptions(argv);
      if (options.agent) return startWithAgent(options, argv);
      await run(options, engines);
      return 0;
    },
  });
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof ModelError || error instanceof StateFolderError) return 2;
  // The failed program has printed the reason; its exit code becomes that of this process.
  if (error instanceof ChildFailed) return error.exitCode;
  return isKeyStoreError(error) || error instanceof PortError ? 1 : launchExitCode(error);
}
