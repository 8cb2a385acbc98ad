import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Discovery, DiscoveryOptions, DiscoveryStatus } from "./discovery.ts";
import { DiscoveryRecord } from "./discovery-record.ts";
import type { DnsLookupFamily, DnsSettings } from "./discovery-settings.ts";
import { type EndpointSpec, endpointSchema } from "./endpoint-schema.ts";

/** The timeout of a lookup, in milliseconds. */
const LOOKUP_TIMEOUT_MS = 5_000;
/**
 * The longest interval between two lookups, in refresh intervals: failing lookups back off, as with Envoy's
 * `dns_failure_refresh_rate`.
 */
const MAX_BACK_OFF = 10;
const JITTER = 0.2;

/**
 * Envoy's strict DNS: every address of a host is an endpoint, and one that is no longer returned leaves. A failed
 * lookup or an empty answer changes nothing: an outage of name servers implies nothing about engines.
 */
export class DnsDiscovery implements Discovery {
  readonly #host: string;
  readonly #port: string;
  readonly #refreshMs: number;
  readonly #family: DnsLookupFamily;
  readonly #options: DiscoveryOptions;
  readonly #record: DiscoveryRecord;
  /** The endpoints of the last answer by their addresses. */
  #known: ReadonlyMap<string, EndpointSpec> = new Map();
  #failuresInRow = 0;
  #cancel: () => void = () => {};
  #closed = false;

  constructor({ address, dnsRefreshRateMs, dnsLookupFamily }: DnsSettings, options: DiscoveryOptions) {
    const colon = address.lastIndexOf(":");
    this.#host = address.slice(0, colon).replace(/^\[|\]$/g, "");
    this.#port = address.slice(colon + 1);
    this.#refreshMs = dnsRefreshRateMs;
    this.#family = dnsLookupFamily;
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
    if (typeof answer === "string") this.#record.failed(`${this.#host}: ${answer}`);
    else if (answer.length === 0) this.#record.rejected(`${this.#host}: no addresses`);
    else this.#take(answer);
    this.#failuresInRow = this.status.fault === undefined ? 0 : this.#failuresInRow + 1;
    this.#cancel = this.#options.clock.after(this.#delayMs(), () => void this.#refresh());
  }

  /** Looks the host up once. Resolves to its addresses, or to the error code where there are none. */
  async #ask(): Promise<readonly string[] | string> {
    const { clock, resolve } = this.#options;
    try {
      return ofFamily(this.#family, await inTime(resolve(this.#host), clock));
    } catch (error) {
      return codeOf(error);
    }
  }

  #take(addresses: readonly string[]): void {
    this.#record.succeeded();
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
    if (this.#failuresInRow === 0) return this.#refreshMs;
    const backOff = Math.min(MAX_BACK_OFF, 2 ** (this.#failuresInRow - 1));
    return this.#refreshMs * backOff * (1 + JITTER * (2 * this.#options.random() - 1));
  }
}

function ofFamily(family: DnsLookupFamily, addresses: readonly string[]): readonly string[] {
  if (family === "all") return addresses;
  const v6 = addresses.filter((address) => address.includes(":"));
  if (family === "v6_only") return v6;
  const v4 = addresses.filter((address) => !address.includes(":"));
  return family === "v4_preferred" && v4.length === 0 ? v6 : v4;
}

function inTime<T>(work: Promise<T>, clock: Clock): Promise<T> {
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
