import { afterEach, inject } from "vitest";
import { becomes } from "../becomes.ts";
import { sizeOf } from "../size.ts";
import { EngineProcess } from "./engine-process.ts";
import { GatewayProcess } from "./gateway-process.ts";

/**
 * Returns a number for tests of fleets: `small` unless FULL=1 asks for `promised`, what is promised, which a small
 * machine has no time for.
 */
export function size(small: number, promised: number): number {
  return sizeOf({ quick: small, promised });
}

/** Prints what a test has measured. */
export function show(what: string, seen: object): void {
  process.stdout.write(`${inject("size")} ${what}: ${JSON.stringify(seen)}\n`);
}

/** The settings of a simulator whose answers take some 100 ms. */
export const SHORT = { tokensPerSecond: 200, answerTokens: { min: 16, max: 24 } };
/** The settings of a simulator whose answers take some seconds. */
export const LONG = { tokensPerSecond: 20, answerTokens: { min: 60, max: 80 }, slots: 200 };

/** Gateways and nodes as processes; all that a test started ends behind it, the newest first. */
export class Fleet {
  readonly #closing: (() => unknown)[] = [];

  constructor() {
    afterEach(async () => {
      for (const close of this.#closing.splice(0).reverse()) await close();
    });
  }

  /** Has `close` called after the test, the newest first, for whatever else the test leaves behind. */
  onEnd(close: () => unknown): void {
    this.#closing.push(close);
  }

  /** Starts a node, which ends after the test. */
  async engine(nodeId: string, ...options: Tail<Parameters<typeof EngineProcess.start>>): Promise<EngineProcess> {
    const engine = await EngineProcess.start(nodeId, ...options);
    this.onEnd(() => engine.kill());
    return engine;
  }

  /** Starts so many nodes, `node0` and so on, which end after the test. */
  engines(count: number, backend: object = {}): Promise<EngineProcess[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.engine(`node${index}`, backend)));
  }

  /**
   * Starts a gateway, which ends after the test. `cluster` holds the settings of its one cluster, `svc-qwen`, over
   * health checks that are quick; `more` and the rest are what `GatewayProcess.start` takes.
   */
  async gateway(
    cluster: object,
    more: object = {},
    ...rest: Tail<Parameters<typeof GatewayProcess.start>>
  ): Promise<GatewayProcess> {
    const healthChecks = { intervalMs: 1_000, intervalJitterMs: 200, unhealthyIntervalMs: 200 };
    const clusters = [{ model: "svc-qwen", healthChecks, ...cluster }];
    const gateway = await GatewayProcess.start({ clusters, ...more }, ...rest);
    this.onEnd(() => gateway.end());
    return gateway;
  }

  /** A gateway that finds all these nodes healthy. */
  async inFrontOf(nodes: readonly { readonly address: string }[], cluster: object = {}, more: object = {}) {
    const gateway = await this.gateway({ endpoints: nodes.map(({ address }) => ({ address })), ...cluster }, more);
    for (const { address } of nodes) await healthy(gateway, address);
    return gateway;
  }
}

type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

/** Resolves when the endpoint at `address` is healthy to the gateway; throws when it does not come to be. */
export async function healthy(gateway: GatewayProcess, address: string): Promise<void> {
  await becomes(async () => (await gateway.health(address)) === "healthy", `${address} is healthy`);
}

/** Resolves when nothing is left of any request, in the gateway and in the nodes. */
export async function nothingOpen(gateway: GatewayProcess, nodes: readonly EngineProcess[]): Promise<void> {
  await becomes(async () => (await gateway.open()) === 0, "no lease, call, stream or waiting request is open");
  for (const node of nodes) await becomes(async () => (await node.busy()) === 0, "no slot is taken");
}

/** Returns how many requests ended with which detail token. */
export function detailsOf(gateway: GatewayProcess): Readonly<Record<string, number>> {
  const tally: Record<string, number> = {};
  for (const { msg, detail } of gateway.process.log) {
    if (msg === "request" && detail) tally[String(detail)] = (tally[String(detail)] ?? 0) + 1;
  }
  return tally;
}
