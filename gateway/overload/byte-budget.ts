/** Share of the bytes left by others that one tenant may take: alone half of it, two a third each, a new one always. */
const TENANT_SHARE = 0.5;

/** The exhausted budget: that of all tenants together, or the share of one. */
export type Lack = "all" | "tenant";

/**
 * Returns why `more` of a tenant does not fit into `max`, of which all tenants have `all` and this one `own`; undefined
 * if it fits. The first of a tenant may exceed its share.
 */
export function lackOf(more: number, own: number, all: number, max: number): Lack | undefined {
  if (own > 0 && own + more > TENANT_SHARE * (max - all + own)) return "tenant";
  return all + more > max ? "all" : undefined;
}

/** Counts the bytes of all tenants, each within its share. */
export class ByteBudget {
  readonly maxBytes: number;
  readonly #bytesOf = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  protected lacks(tenant: string, bytes: number): Lack | undefined {
    return lackOf(bytes, this.#bytesOf.get(tenant) ?? 0, this.#bytes, this.maxBytes);
  }

  /** Counts `bytes` more of a tenant, whether they fit or not; negative ones are released. */
  protected take(tenant: string, bytes: number): void {
    this.#bytes += bytes;
    const ofTenant = (this.#bytesOf.get(tenant) ?? 0) + bytes;
    if (ofTenant > 0) this.#bytesOf.set(tenant, ofTenant);
    else this.#bytesOf.delete(tenant);
  }
}
