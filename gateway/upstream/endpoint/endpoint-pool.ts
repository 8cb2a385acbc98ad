import type { Logger } from "pino";
import { isLoopback } from "../../../deploy/runtime/net/loopback.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { WireKind } from "../wire/generate-wire.ts";
import { Endpoint, type EndpointTls } from "./endpoint.ts";
import { LoadReports } from "./load-reports.ts";

type Entry = {
  readonly endpoint: Endpoint;
  readonly tls: EndpointTls | undefined;
  users: number;
  /** The endpoint's load reports, followed only while some cluster has it. */
  reports: LoadReports | undefined;
};

export type EndpointPoolOptions = {
  readonly clock: Clock;
  readonly random: () => number;
  readonly wire?: WireKind;
  readonly onGone: (address: string) => void;
  /** Receives one warning when an endpoint on another machine is connected in plain text. */
  readonly log: Logger;
};

/** Holds endpoints, one channel per address and TLS setting, closed after the last cluster and call. */
export class EndpointPool {
  readonly #options: EndpointPoolOptions;
  readonly #entries = new Map<Endpoint, Entry>();
  readonly #byAddress = new Map<string, Entry[]>();
  /** The manually drained addresses, including those without an endpoint. */
  drained: ReadonlySet<string> = new Set();
  #warned = false;

  constructor(options: EndpointPoolOptions) {
    this.#options = options;
  }

  /** All open endpoints, including those without a cluster whose calls still run. */
  get endpoints(): readonly Endpoint[] {
    return [...this.#entries.keys()];
  }

  /** Drains the endpoints at these addresses, later ones included, and resumes those at all others. */
  setDrained(addresses: ReadonlySet<string>): void {
    this.drained = addresses;
    for (const endpoint of this.endpoints) {
      const drained = addresses.has(endpoint.address);
      if (endpoint.drained !== drained) endpoint.setDrained(drained);
    }
  }

  /** Returns the endpoint at an address for one cluster, until `leave` is called for it. */
  join(address: string, tls?: EndpointTls): Endpoint {
    const { clock, random } = this.#options;
    const entry = this.#find(address, tls) ?? this.#add(address, tls);
    entry.users += 1;
    entry.endpoint.whenIdle(undefined);
    const nodes = () => this.#entries.size;
    entry.reports ??= new LoadReports({ endpoint: entry.endpoint, clock, random, nodes });
    return entry.endpoint;
  }

  leave(endpoint: Endpoint): void {
    const entry = this.#entries.get(endpoint);
    if (!entry) return;
    entry.users -= 1;
    if (entry.users > 0) return;
    entry.reports?.close();
    entry.reports = undefined;
    endpoint.whenIdle(() => this.#close(endpoint));
  }

  close(): void {
    for (const { endpoint, reports } of this.#entries.values()) {
      reports?.close();
      endpoint.whenIdle(undefined);
      endpoint.close();
    }
    this.#entries.clear();
    this.#byAddress.clear();
  }

  #find(address: string, tls: EndpointTls | undefined): Entry | undefined {
    return this.#byAddress
      .get(address)
      ?.find((entry) => entry.tls?.credentials === tls?.credentials && entry.tls?.serverName === tls?.serverName);
  }

  #add(address: string, tls: EndpointTls | undefined): Entry {
    if (!tls && !this.#warned && !isLoopback(address.replace(/:\d+$/, ""))) {
      this.#warned = true;
      this.#options.log.warn({ endpoint: address }, "prompts and answers travel in plain text: the cluster has no tls");
    }
    const entry = {
      endpoint: new Endpoint(address, tls, this.#options.wire, this.#options.clock),
      tls,
      users: 0,
      reports: undefined,
    };
    if (this.drained.has(address)) {
      entry.endpoint.setDrained(true);
      this.#options.log.warn(
        { endpoint: address },
        "the endpoint was drained by hand, and gets no requests until undrained",
      );
    }
    this.#entries.set(entry.endpoint, entry);
    this.#byAddress.set(address, [...(this.#byAddress.get(address) ?? []), entry]);
    return entry;
  }

  #close(endpoint: Endpoint): void {
    this.#entries.delete(endpoint);
    const others = (this.#byAddress.get(endpoint.address) ?? []).filter((entry) => entry.endpoint !== endpoint);
    if (others.length > 0) this.#byAddress.set(endpoint.address, others);
    else this.#byAddress.delete(endpoint.address);
    endpoint.close();
    this.#options.onGone(endpoint.address);
  }
}
