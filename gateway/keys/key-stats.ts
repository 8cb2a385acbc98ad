import { Counter, Gauge, type Registry } from "prom-client";
import type { KeyStore } from "./key-store.ts";

/** The state of the key store, read at the moment of the scrape. */
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
  gauge("svc_keystore_keys", "Key records in use.", (status) => status.keys);
  gauge(
    "svc_keystore_last_success_timestamp_seconds",
    "When the keys in use were loaded, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  new Counter({
    name: "svc_keystore_load_errors_total",
    help: "Attempts to load the keys that failed.",
    registers: [registry],
    collect() {
      this.reset();
      this.inc(keys.status().loadErrors);
    },
  });
  gauge("svc_keystore_stale", "1 while the newest key file cannot be used.", (status) => (status.fault ? 1 : 0));
}
