import { lookup } from "node:dns/promises";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import {
  type Discovery,
  type DiscoveryOptions,
  DiscoveryRecord,
  type DiscoveryStatus,
  type EndpointSpec,
  endpointSchema,
  type Resolve,
} from "./discovery.ts";

const REFRESH_MS = 1_000;
const LOOKUP_TIMEOUT_MS = 5_000;
/** The longest interval between two lookups, in refresh intervals: failing lookups back off. */
const MAX_BACK_OFF = 10;
const JITTER = 0.2;
/** The most concurrent lookups: the system's resolver blocks some of Node's few worker threads. */
const MAX_LOOKUPS = 2;

/** Returns the system's resolver, with its hosts file and search domains. Concurrent lookups of a host share a result. */
export function systemResolve(): Resolve {
  const underWay = new Map<string, Promise<readonly string[]>>();
  const waiting: (() => void)[] = [];
  let running = 0;

  const look = async (host: string): Promise<readonly string[]> => {
    if (running >= MAX_LOOKUPS) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return (await lookup(host, { all: true, order: "verbatim" })).map(({ address }) => address);
    } finally {
      underWay.delete(host);
      // The next one takes over the place.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
  return (host) => {
    const known = underWay.get(host);
    if (known) return known;
    const answer = look(host);
    underWay.set(host, answer);
    return answer;
  };
}

/**
 * Envoy's strict DNS: every address of a host is an endpoint, and one that is no longer returned leaves. A failed
 * lookup or an empty answer changes nothing: an outage of name servers implies nothing about engines.
 */
export class DnsDiscovery implements Discovery {
  readonly #host: string;
  readonly #port: string;
  readonly #options: DiscoveryOptions;
  readonly #record: DiscoveryRecord;
  /** The endpoints of the last answer by their IP addresses. */
  #known: ReadonlyMap<string, EndpointSpec> = new Map();
  #failuresInRow = 0;
  #cancel: () => void = () => {};
  #closed = false;

  constructor({ address }: { readonly address: string }, options: DiscoveryOptions) {
    const colon = address.lastIndexOf(":");
    this.#host = address.slice(0, colon).replace(/^\[|\]$/g, "");
    this.#port = address.slice(colon + 1);
    this.#options = options;
    this.#record = new DiscoveryRecord(options.onFault);
    void this.#refresh();
  }

  get status(): DiscoveryStatus {
    return this.#record.status;
  }

  /** Stops the lookups; the result of a running one is ignored. */
  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #refresh(): Promise<void> {
    const answer = await this.#ask();
    if (this.#closed) return;
    if (typeof answer === "string") this.#record.count("failures", `${this.#host}: ${answer}`);
    else if (answer.length === 0) this.#record.count("rejected", `${this.#host}: no addresses`);
    else this.#take(answer);
    this.#failuresInRow = this.status.fault === undefined ? 0 : this.#failuresInRow + 1;
    this.#cancel = this.#options.clock.after(this.#delayMs(), () => void this.#refresh());
  }

  /** Looks the host up once. Resolves to its addresses, or to the error code where there are none. */
  async #ask(): Promise<readonly string[] | string> {
    const { clock, resolve } = this.#options;
    try {
      return ofOneFamily(await withinTimeout(resolve(this.#host), clock));
    } catch (error) {
      return codeOf(error);
    }
  }

  #take(addresses: readonly string[]): void {
    this.#record.count("successes");
    const before = this.#known;
    const found = new Set(addresses);
    // An answer is never empty here, so that the first one always differs.
    if (found.size === before.size && addresses.every((ip) => before.has(ip))) return;
    this.#known = new Map([...found].sort().map((ip) => [ip, before.get(ip) ?? this.#endpoint(ip)]));
    this.#options.onEndpoints([...this.#known.values()]);
  }

  #endpoint(ip: string): EndpointSpec {
    return endpointSchema.parse({ address: ip.includes(":") ? `[${ip}]:${this.#port}` : `${ip}:${this.#port}` });
  }

  #delayMs(): number {
    if (this.#failuresInRow === 0) return REFRESH_MS;
    const backOff = Math.min(MAX_BACK_OFF, 2 ** (this.#failuresInRow - 1));
    return REFRESH_MS * backOff * (1 + JITTER * (2 * this.#options.random() - 1));
  }
}

/** Prefers IPv4, as a node with addresses of both families would otherwise be two endpoints. */
function ofOneFamily(addresses: readonly string[]): readonly string[] {
  const v4 = addresses.filter((address) => !address.includes(":"));
  return v4.length > 0 ? v4 : addresses;
}

function withinTimeout<T>(work: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(LOOKUP_TIMEOUT_MS, () => reject(new Error("timeout")));
    work.then(resolve, reject).finally(cancel);
  });
}

/** Returns the code of an error, such as ENOTFOUND; a resolver's text adds nothing. */
function codeOf(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return error instanceof Error && error.message === "timeout" ? "timeout" : "failed";
}
