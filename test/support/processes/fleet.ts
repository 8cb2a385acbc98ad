import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, inject } from "vitest";
import { becomes } from "../becomes.ts";
import { FaultyWire } from "../engine/faulty-wire.ts";
import { sizeOf } from "../size.ts";
import { EngineProcess } from "./engine-process.ts";
import { GatewayProcess } from "./gateway-process.ts";

/** Returns `small` unless FULL=1 selects `promised`, which takes too long on a small machine. */
export function size(small: number, promised: number): number {
  return sizeOf({ quick: small, promised });
}

export function show(what: string, seen: object): void {
  process.stdout.write(`${inject("size")} ${what}: ${JSON.stringify(seen)}\n`);
}

/** Settings of a simulator whose answers take some 100 ms, and hardly any of the processor. */
export const SHORT = { tokensPerSecond: 50, answerTokens: { min: 8, max: 12 } };
/** Settings of a simulator whose answers last, once begun, until `letEnd` (else for minutes). */
export const HELD = { answerTokens: { min: 60, max: 80 }, holdAfterTokens: 4, slots: 500 };
/** Settings of a simulator whose answers take some seconds. */
export const LONG = { tokensPerSecond: 20, answerTokens: { min: 60, max: 80 }, slots: 200 };

/** Gateways and nodes as processes; they end after each test, or with `afterAll` after all of them, newest first. */
export class Fleet {
  readonly #closing: (() => unknown)[] = [];

  constructor(after: (close: () => Promise<void>) => void = afterEach) {
    after(async () => {
      for (const close of this.#closing.splice(0).reverse()) await close();
    });
  }

  onEnd(close: () => unknown): void {
    this.#closing.push(close);
  }

  async engine(nodeId: string, ...options: Tail<Parameters<typeof EngineProcess.start>>): Promise<EngineProcess> {
    const engine = await EngineProcess.start(nodeId, ...options);
    this.onEnd(() => engine.kill());
    return engine;
  }

  engines(count: number, backend: object = {}): Promise<EngineProcess[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.engine(`node${index}`, backend)));
  }

  /** Starts a gateway, which ends after the test. `cluster` holds the settings of its cluster `svc-qwen`. */
  async gateway(
    cluster: object,
    more: object = {},
    ...rest: Tail<Parameters<typeof GatewayProcess.start>>
  ): Promise<GatewayProcess> {
    const healthChecks = { intervalMs: 1_000 };
    const clusters = [{ model: "svc-qwen", healthChecks, ...cluster }];
    const gateway = await GatewayProcess.start({ clusters, ...more }, ...rest);
    this.onEnd(() => gateway.end());
    return gateway;
  }

  /** Makes a file with the endpoints of a cluster, which `write` replaces atomically. */
  endpointFile() {
    const folder = mkdtempSync(join(tmpdir(), "svc-endpoints-"));
    this.onEnd(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, "endpoints.yaml");
    const write = (content: string) => {
      writeFileSync(`${path}.new`, content);
      renameSync(`${path}.new`, path);
    };
    const list = (nodes: readonly { readonly address: string }[]) =>
      write(JSON.stringify({ endpoints: nodes.map(({ address }) => ({ address })) }));
    return { path, write, list };
  }

  /** Starts nodes `node0` and so on, each behind a wire that tests can break. */
  async wired(count: number, start = (name: string) => this.engine(name)) {
    return Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const node = await start(`node${index}`);
        const wire = await FaultyWire.start(node.address);
        this.onEnd(() => wire.close());
        return { node, wire };
      }),
    );
  }

  async inFrontOf(nodes: readonly { readonly address: string }[], cluster: object = {}, more: object = {}) {
    const gateway = await this.gateway({ endpoints: nodes.map(({ address }) => ({ address })), ...cluster }, more);
    for (const { address } of nodes) await healthy(gateway, address);
    return gateway;
  }
}

type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

/** Resolves when the endpoint at `address` is healthy for the gateway; throws if it does not become so. */
export async function healthy(gateway: GatewayProcess, address: string): Promise<void> {
  await becomes(async () => (await gateway.health(address)) === "healthy", `${address} is healthy`);
}

/** Lets the answers of `HELD` nodes end. */
export function letEnd(nodes: readonly EngineProcess[]): void {
  for (const node of nodes) node.signal("SIGUSR2");
}

export async function nothingOpen(gateway: GatewayProcess, nodes: readonly EngineProcess[]): Promise<void> {
  await becomes(async () => (await gateway.open()) === 0, "no lease, call, stream or waiting request is open");
  for (const node of nodes) await becomes(async () => (await node.busy()) === 0, "no slot is taken");
}

export function detailsOf(gateway: GatewayProcess): Readonly<Record<string, number>> {
  const tally: Record<string, number> = {};
  for (const { msg, detail } of gateway.process.log) {
    if (msg === "request" && detail) tally[String(detail)] = (tally[String(detail)] ?? 0) + 1;
  }
  return tally;
}
