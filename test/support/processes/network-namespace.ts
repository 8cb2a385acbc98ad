import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import type { EnginePlace } from "./engine-process.ts";

/*
 * Hosts with addresses of their own on one machine: network namespaces of Linux. A node in one is reached over a link
 * that can be cut; a second link stays, for what a test wants to know about it meanwhile.
 */

/** The first of the addresses for benchmarks (RFC 2544); each process takes 64 of them. */
const NETWORK = 198 * 2 ** 24 + 18 * 2 ** 16;
const PER_PROCESS = 64;
const PROCESSES = 2_048;
/** The number of addresses of a namespace: two links of four addresses each. */
const PER_NAMESPACE = 8;

/** Numbers of the namespaces that this process has. */
const inUse = new Set<number>();

/** Returns why no namespaces can be made on this machine; undefined when they can. */
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
  /** The name of the link's interface on this host. */
  readonly outer: string;
  /** The name of the link's interface in the namespace. */
  readonly inner: string;
  readonly outerAddress: string;
  readonly innerAddress: string;
};

/** A network namespace of its own, with links to this machine that a test can cut. */
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

  /** Makes a namespace. Throws where `whyNoNamespaces` has a reason, or a process has eight of them. */
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

  /**
   * The place of a node in the namespace: it serves on the link that can be cut, and its metrics are on the one that
   * stays.
   */
  get place(): EnginePlace {
    return {
      host: this.#data.innerAddress,
      metricsHost: this.#management.innerAddress,
      through: ["ip", "netns", "exec", this.#name],
    };
  }

  /** Pulls the cable: nothing is said to anybody, nothing passes. */
  cut(): void {
    ip("-n", this.#name, "link", "set", this.#data.inner, "down");
  }

  /** Loses what the host sends on its way; what is sent to it arrives. */
  loseReplies(): void {
    this.#lose(["-n", this.#name, "route"], this.#data.outerAddress);
  }

  /** Loses what is sent to the host on its way; what it sends arrives. */
  loseRequests(): void {
    this.#lose(["route"], this.#data.innerAddress);
  }

  /** Takes back what was done to the link. */
  heal(): void {
    for (const route of this.#lost.splice(0)) ip(...route);
    ip("-n", this.#name, "link", "set", this.#data.inner, "up");
  }

  /** Removes the namespace. It may be called again; programs in it must have ended. */
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

/** Removes the namespaces of processes that were ended before they could do so. */
function removeOrphans(): void {
  for (const [name, pid] of execFileSync("ip", ["netns", "list"], { encoding: "utf8" }).matchAll(/^svc-(\d+)-\d+/gm))
    if (!existsSync(`/proc/${pid}`)) quietly("netns", "del", name);
}

/** The two usable addresses of four. */
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
    // It is gone already.
  }
}
