import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { becomes } from "../../support/becomes.ts";
import { Http1Caller } from "../../support/edge/edge-caller.ts";
import { type EdgeOptions, type EdgeRig, startEdge } from "../../support/edge/edge-rig.ts";
import { startEnvoy } from "../../support/edge/envoy-process.ts";
import { FrameClient } from "../../support/http/frame-client.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { Forwarder } from "../../support/redis/forwarder.ts";

/*
 * Faults of a socket that this service can produce, behind the shipped Envoy: one engine that plays the task, two
 * gateways, and a stable address in front.
 */

export const SCRIPT = { steps: 5, tokens: 60 };

type SocketStand = Readonly<Omit<EdgeRig, "end">> & {
  /** The address of callers, in front of Envoy. */
  readonly front: Forwarder;
  readonly outage: string;
  /** Ends something else with the stand. */
  readonly alsoEnd: (end: () => unknown) => void;
};

export type SocketFault = {
  readonly name: string;
  readonly options?: EdgeOptions;
  /** Options of the client's key; absent: a key without limits. */
  readonly keyOptions?: readonly string[];
  readonly wrongKey?: true;
  /** Behind the origin, in the client's base address. */
  readonly path?: string;
  readonly model?: string;
  /** The pace of the engine. Default: 100. */
  readonly tokensPerSecond?: number;
  /** What the user of a client reads at the end of a task that does not finish. Absent: it finishes. */
  readonly refused?: Readonly<Partial<Record<"codex" | "sdk", RegExp>>>;
  /** Runs before the client starts. */
  readonly before?: (stand: SocketStand, key: string) => Promise<unknown>;
  /** Runs beside the client, from the middle of its third answer. */
  readonly inMidTurn?: (stand: SocketStand, key: string) => Promise<unknown>;
  /** Runs beside the client, from its start. */
  readonly beside?: (stand: SocketStand) => Promise<unknown>;
};

const gatewayOf = ({ gateways }: SocketStand) => {
  const frames = ({ process }: (typeof gateways)[number]) => process.log.filter(isFrame).length;
  return [...gateways].sort((one, other) => frames(other) - frames(one))[0] as (typeof gateways)[number];
};

const isFrame = ({ msg, transport, socket_end: end, code }: Readonly<Record<string, unknown>>) =>
  msg === "request" && transport === "websocket" && end === undefined && code === 200;

/** Opens as many sockets with this key as a gateway takes, on each. */
async function fillSockets({ gateways }: SocketStand, key: string): Promise<void> {
  for (const { place } of gateways)
    await Promise.all(Array.from({ length: 32 }, () => FrameClient.open({ port: place.port, key })));
}

async function post(port: number, key: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  await (await fetch(`http://127.0.0.1:${port}/v1/responses`, init)).text();
}

/** The timers of a gateway for the age of a socket, an hour, run after seconds. */
const AGED = "const s=setTimeout;globalThis.setTimeout=(f,ms,...a)=>s(f,ms>3e6?AGE:ms,...a);";
const aged = (ms: number): EdgeOptions => ({
  through: ["env", `NODE_OPTIONS=--import=data:text/javascript,${encodeURIComponent(AGED.replace("AGE", String(ms)))}`],
});

const OUTAGE_MS = 3_000;
/** Milliseconds after the end of a client in which a fault may end, and in which logs are written. */
const LATE_MS = 10_000;
const LOG_MS = 300;

async function engineOut({ engine, outage }: SocketStand): Promise<void> {
  writeFileSync(outage, "");
  await engine.kill();
  const again = engine.startAgain();
  await sleep(OUTAGE_MS);
  rmSync(outage);
  await again;
}

export const FAULTS: readonly SocketFault[] = [
  { name: "none" },
  { name: "426: the key has its 32 sockets", before: fillSockets, refused: { sdk: /426/ } },
  { name: "401: a wrong key", wrongKey: true, refused: { codex: /Incorrect API key provided/, sdk: /401/ } },
  {
    name: "404: a base address without /v1",
    path: "",
    refused: { codex: /your client's base URL has/, sdk: /404/ },
  },
  {
    name: "429 of the edge",
    options: {
      change: (text) =>
        text.replace(
          "max_tokens: 400, tokens_per_fill: 200, fill_interval: 1s",
          "max_tokens: 1, tokens_per_fill: 1, fill_interval: 3s",
        ),
    },
    before: async ({ edge }) => {
      const caller = new Http1Caller(edge);
      await (await caller.post("/v1/responses", {})).text();
      caller.close();
    },
  },
  {
    name: "503 of the edge: no gateway for 3 s",
    before: async ({ gateways }) => {
      for (const { process } of gateways) await process.end();
    },
    beside: async (stand) => {
      await sleep(OUTAGE_MS);
      await Promise.all(stand.gateways.map((gateway) => stand.startAgain(gateway)));
    },
  },
  {
    name: "no answer: a gateway that stands still",
    options: { change: (text) => text.replace("idle_timeout: 75s", "idle_timeout: 5s") },
    // Both, so that the upgrade reaches one of them; one goes on before Envoy takes it out.
    before: async ({ gateways }) => {
      for (const { process } of gateways) process.signal("SIGSTOP");
    },
    beside: async ({ gateways }) => {
      await sleep(6_000);
      gateways[0]?.process.signal("SIGCONT");
    },
  },
  {
    name: "frame 429: a limit of the key",
    keyOptions: ["--name", "limited", "--models", "all", "--rpm", "12"],
    // It uses the limit up, by HTTP.
    inMidTurn: async (stand, key) => {
      const body = { model: "svc-qwen", input: "Hi.", max_output_tokens: 1 };
      const asked = Array.from({ length: 12 }, () => post(gatewayOf(stand).place.port, key, body));
      await Promise.all(asked);
    },
  },
  {
    name: "frame 503: no engine, and none is waited for",
    options: { cluster: { circuitBreakers: { noEndpointHoldMs: 0 } } },
    inMidTurn: engineOut,
  },
  { name: "response.failed: the only engine is lost for 3 s", inMidTurn: engineOut },
  {
    name: "previous_response_not_found: dropped for memory",
    options: {
      gateway: {
        maxBodyBytes: 262_144,
        overloadManager: { resourceMonitors: { inflightBodyBytes: { maxBytes: 1_000_000 } } },
      },
    },
    inMidTurn: async (stand, key) => {
      const { port } = gatewayOf(stand).place;
      const clients = await Promise.all([0, 1, 2].map(() => FrameClient.open({ port, key })));
      for (const client of clients) await client.ask({ model: "svc-qwen", input: "word ".repeat(40_000) });
      for (const client of clients) client.ws.terminate();
    },
  },
  { name: "1001: the socket is old", options: aged(3_000) },
  {
    name: "1001: the gateway drains",
    tokensPerSecond: 25,
    options: { gateway: { drainGraceMs: 5_000 } },
    inMidTurn: async (stand) => gatewayOf(stand).process.signal("SIGTERM"),
  },
  {
    name: "1001: the edge drains",
    tokensPerSecond: 25,
    options: { drains: { graceS: 1 } },
    inMidTurn: async ({ envoy, front, places, certificates, alsoEnd }) => {
      const other = await startEnvoy(places, certificates);
      alsoEnd(() => other.end());
      front.turnNewTo(other.port);
      envoy.signal("SIGTERM");
    },
  },
  { name: "cut: the gateway is killed", inMidTurn: async (stand) => gatewayOf(stand).process.signal("SIGKILL") },
  {
    name: "cut: the edge is killed",
    inMidTurn: async (stand) => {
      const { envoy, front, places, certificates, alsoEnd } = stand;
      const other = await startEnvoy(places, certificates);
      alsoEnd(() => other.end());
      front.turnTo(other.port);
      await envoy.end();
    },
  },
  {
    name: "frame 400: an unknown model",
    model: "svc-nope",
    refused: { codex: /'svc-nope' does not exist/, sdk: /'svc-nope' does not exist/ },
  },
];

/** Where a client finds the service, with the authority of the edge's certificate. */
export type ClientPlace = {
  readonly baseUrl: string;
  readonly key: string;
  readonly caFile: string;
  readonly model: string;
};

/**
 * Starts the service, and runs a client at a fault. Resolves to what the client resolved to, with the lines that both logs
 * have of it. Rejects if the fault did not come about.
 */
export async function runAt<Ran>(fault: SocketFault, client: (place: ClientPlace) => Promise<Ran>) {
  const folder = mkdtempSync(join(tmpdir(), "svc-sockets-"));
  const { end, ...stand } = await startStand(join(folder, "outage"), fault);
  try {
    const key = await keyFor(stand, fault);
    await fault.before?.(stand, key);
    const since = stand.envoy.log.length;
    const ran = client({
      baseUrl: `https://${stand.front.address}${fault.path ?? "/v1"}`,
      ...{ key, caFile: stand.certificates.file("authority.pem"), model: fault.model ?? "svc-qwen" },
    });
    const came = [fault.beside?.(stand), fault.inMidTurn && inMidTurn(stand).then(() => fault.inMidTurn?.(stand, key))];
    const late = ran.then(async () => {
      await sleep(LATE_MS, undefined, { ref: false });
      throw new Error("the fault came too late");
    });
    await Promise.race([Promise.all(came), late]);
    await ran;
    await sleep(LOG_MS);
    const framesOf = () => stand.logged().filter(({ transport }) => transport === "websocket");
    return { ran: await ran, edge: stand.envoy.log.slice(since), frames: framesOf() };
  } finally {
    await end();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startStand(outage: string, { options = {}, tokensPerSecond = 100 }: SocketFault) {
  const backend = { kind: "agents", ...SCRIPT, contextTokens: 262_144, spareTokens: 0, tokensPerSecond, outage };
  const rig = await startEdge(backend, {
    ...options,
    engine: { program: "test/agents/engine.js" },
    gateway: { formats: { responses: { unsupportedTools: "skip" } }, ...options.gateway },
  });
  const front = await Forwarder.to(rig.envoy.port);
  const more: (() => unknown)[] = [];
  return {
    ...rig,
    front,
    outage,
    alsoEnd: (end: () => unknown) => void more.push(end),
    async end() {
      front.end();
      for (const end of more) await end();
      await rig.end();
    },
  };
}

/** Makes the client's key. Resolves to its text once both gateways accept it. */
async function keyFor(
  { gateways, keyFile, edge }: SocketStand,
  { wrongKey, keyOptions }: SocketFault,
): Promise<string> {
  if (wrongKey) return "sk-svc-wrong";
  if (!keyOptions) return edge.key;
  const key = await createKey(keyFile, ...keyOptions);
  for (const { place } of gateways)
    await becomes(async () => {
      const known = { headers: { authorization: `Bearer ${key}` } };
      return (await fetch(`http://127.0.0.1:${place.port}/v1/models`, known)).status === 200;
    }, "the key is known");
  return key;
}

/** Resolves in the middle of the client's third answer. */
async function inMidTurn({ gateways, engine }: SocketStand): Promise<void> {
  const frames = () => gateways.flatMap(({ process }) => process.log.filter(isFrame));
  const answers = () => frames().filter(({ output_tokens: tokens = 0 }) => Number(tokens) > 0);
  await becomes(async () => answers().length >= 2 && (await engine.busy()) > 0, "the third answer runs", 100_000);
  await sleep(100);
}
