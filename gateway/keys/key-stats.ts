import { Counter, Gauge, type Registry } from "prom-client";
import type { KeyStore } from "./key-store.ts";

/** Registers the state of the key store as metrics, which read it at the moment of the scrape. */
export function registerKeyStats(registry: Registry, keys: KeyStore): void {
  const gauge = (name: string, help: string, value: (status: ReturnType<KeyStore["status"]>) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value(keys.status()));
      },
    });
  gauge("svc_keystore_keys", "Key records in use, whatever their status.", (status) => status.keys);
  gauge(
    "svc_keystore_last_success_timestamp_seconds",
    "Time at which the keys in use were loaded, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  new Counter({
    name: "svc_keystore_load_errors_total",
    help: "Attempts to load the key file that failed.",
    registers: [registry],
    collect() {
      this.reset();
      this.inc(keys.status().loadErrors);
    },
  });
  gauge(
    "svc_keystore_stale",
    "1 while the newest key file cannot be used and the one before stays in force; else 0.",
    (status) => (status.fault ? 1 : 0),
  );
}
