import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import type { EngineSetup } from "./engine-process.ts";

/*
 * Hosts with their own addresses on one machine, as Linux network namespaces. A node in one is reached over a link that
 * can be cut; a second link stays up for the test's own queries.
 */

/** First address for benchmarks (RFC 2544); each process takes 64 of them. */
const NETWORK = 198 * 2 ** 24 + 18 * 2 ** 16;
const PER_PROCESS = 64;
const PROCESSES = 2_048;
/** Addresses of a namespace: two links of four addresses each. */
const PER_NAMESPACE = 8;

const inUse = new Set<number>();

/** Returns why namespaces are unavailable on this machine; undefined if they are available. */
export function whyNoNamespaces(): string | undefined {
  if (process.platform !== "linux") return "network namespaces are Linux's";
  if (process.getuid?.() !== 0) return "only root may make network namespaces";
  const name = `svc-probe-${process.pid}`;
  try {
    removeOrphans();
    ip("netns", "add", name);
    ip("netns", "del", name);
    return undefined;
  } catch {
    return "`ip netns add` fails here: the package iproute2 is missing, or the container may not";
  }
}

type Link = {
  /** Interface of the link on this host. */
  readonly outer: string;
  /** Interface of the link in the namespace. */
  readonly inner: string;
  readonly outerAddress: string;
  readonly innerAddress: string;
};

export class NetworkNamespace {
  readonly #index: number;
  readonly #name: string;
  readonly #data: Link;
  readonly #management: Link;
  readonly #lost: (readonly string[])[] = [];

  private constructor(index: number) {
    const first = NETWORK + (process.pid % PROCESSES) * PER_PROCESS + index * PER_NAMESPACE;
    this.#index = index;
    this.#name = `svc-${process.pid}-${index}`;
    this.#data = { ...link(first), outer: `svd${process.pid}x${index}`, inner: "data" };
    this.#management = { ...link(first + 4), outer: `svm${process.pid}x${index}`, inner: "management" };
  }

  /** Makes a namespace. Throws if `whyNoNamespaces` has a reason, or a process has eight of them. */
  static create(): NetworkNamespace {
    let index = 0;
    while (inUse.has(index)) index += 1;
    if ((index + 1) * PER_NAMESPACE > PER_PROCESS) throw new Error("there are no addresses left");
    inUse.add(index);
    const namespace = new NetworkNamespace(index);
    try {
      namespace.#make();
    } catch (error) {
      namespace.remove();
      throw error;
    }
    return namespace;
  }

  /** The setup of a node in the namespace: its gRPC is on the link that can be cut, its metrics on the other one. */
  get setup(): EngineSetup {
    return {
      host: this.#data.innerAddress,
      metricsHost: this.#management.innerAddress,
      through: ["ip", "netns", "exec", this.#name],
    };
  }

  /** Cuts the link: no packets pass, and no side is notified. */
  cut(): void {
    ip("-n", this.#name, "link", "set", this.#data.inner, "down");
  }

  /** Drops packets from the host; packets to it arrive. */
  loseReplies(): void {
    this.#lose(["-n", this.#name, "route"], this.#data.outerAddress);
  }

  /** Drops packets to the host; packets from it arrive. */
  loseRequests(): void {
    this.#lose(["route"], this.#data.innerAddress);
  }

  heal(): void {
    for (const route of this.#lost.splice(0)) ip(...route);
    ip("-n", this.#name, "link", "set", this.#data.inner, "up");
  }

  remove(): void {
    for (const args of [...this.#lost, ["link", "del", this.#data.outer], ["link", "del", this.#management.outer]])
      quietly(...args);
    quietly("netns", "del", this.#name);
    inUse.delete(this.#index);
  }

  #lose(where: readonly string[], address: string): void {
    ip(...where, "add", "blackhole", `${address}/32`);
    this.#lost.push([...where, "del", "blackhole", `${address}/32`]);
  }

  #make(): void {
    ip("netns", "add", this.#name);
    ip("-n", this.#name, "link", "set", "lo", "up");
    for (const { outer, inner, outerAddress, innerAddress } of [this.#data, this.#management]) {
      ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", this.#name);
      ip("addr", "add", `${outerAddress}/30`, "dev", outer);
      ip("link", "set", outer, "up");
      ip("-n", this.#name, "addr", "add", `${innerAddress}/30`, "dev", inner);
      ip("-n", this.#name, "link", "set", inner, "up");
    }
  }
}

/** Removes the namespaces of processes that were killed before they could do so. */
function removeOrphans(): void {
  for (const [name, pid] of execFileSync("ip", ["netns", "list"], { encoding: "utf8" }).matchAll(/^svc-(\d+)-\d+/gm))
    if (!existsSync(`/proc/${pid}`)) quietly("netns", "del", name);
}

function link(first: number): Pick<Link, "outerAddress" | "innerAddress"> {
  return { outerAddress: dotted(first + 1), innerAddress: dotted(first + 2) };
}

function dotted(address: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(address / 2 ** bits) % 256).join(".");
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
}

function quietly(...args: readonly string[]): void {
  try {
    ip(...args);
  } catch {
    // It is already removed.
  }
}
