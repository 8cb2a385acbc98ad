/** The time for which a tenant's peak demand counts. */
const PEAK_MS = 60_000;

/** The share of all slots that one tenant gets beside others at least. */
const LEAST_SHARE = 0.5;

/** The requests of one tenant; their owner keeps `running` and `waiting` up to date. */
export type Tenant = {
  running: number;
  waiting: number;
  /** The most running and waiting requests at once, and when that was, in monotonic milliseconds. */
  peak: number;
  peakMs: number;
};

/**
 * Limits the running requests of each tenant, so that others need not wait for its answers to end: it leaves them as
 * many slots as they wanted at once within the last minute, but keeps half of all.
 */
export class TenantCaps {
  readonly #tenants = new Map<string, Tenant>();
  #pruneMs = 0;

  /** Counts one more waiting request of a tenant. */
  enter(name: string, nowMs: number): Tenant {
    if (nowMs >= this.#pruneMs) this.#prune(nowMs);
    const tenant = this.#tenants.get(name) ?? { running: 0, waiting: 0, peak: 0, peakMs: nowMs };
    this.#tenants.set(name, tenant);
    tenant.waiting += 1;
    const wanted = tenant.waiting + tenant.running;
    if (wanted >= demandOf(tenant, nowMs)) Object.assign(tenant, { peak: wanted, peakMs: nowMs });
    return tenant;
  }

  /** Returns whether a tenant runs as many requests as it may on `slots` slots. */
  isAtCap(tenant: Tenant, slots: number, nowMs: number): boolean {
    const reserved = Math.floor(slots * (1 - LEAST_SHARE));
    // Most requests need no look at the other tenants.
    if (tenant.running < slots - reserved) return false;
    let others = -demandOf(tenant, nowMs);
    for (const one of this.#tenants.values()) others += demandOf(one, nowMs);
    return tenant.running >= slots - Math.min(others, reserved);
  }

  #prune(nowMs: number): void {
    this.#pruneMs = nowMs + PEAK_MS;
    for (const [name, tenant] of this.#tenants) if (demandOf(tenant, nowMs) === 0) this.#tenants.delete(name);
  }
}

/** Returns the peak of a tenant's demand within the last minute. */
function demandOf({ running, waiting, peak, peakMs }: Tenant, nowMs: number): number {
  const wanted = running + waiting;
  return nowMs - peakMs < PEAK_MS ? Math.max(peak, wanted) : wanted;
}
