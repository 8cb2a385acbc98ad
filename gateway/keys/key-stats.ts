import { Counter, Gauge, type Registry } from "prom-client";
import type { KeyStore, KeyStoreStatus } from "./key-store.ts";

/** Registers the state of the key store as metrics, which are read at each scrape. */
export function registerKeyStats(registry: Registry, keys: KeyStore): void {
  const gauge = (name: string, help: string, value: (status: KeyStoreStatus) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value(keys.status()));
      },
    });
  const counter = (name: string, help: string, value: (status: KeyStoreStatus) => number) =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(value(keys.status()));
      },
    });
  gauge("svc_keystore_keys", "Key records in use, whatever their status.", (status) => status.keys);
  gauge(
    "svc_keystore_last_success_timestamp_seconds",
    "Time at which the keys in use were loaded, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  counter("svc_keystore_load_errors_total", "Attempts to load the newest keys that failed.", (s) => s.loadErrors);
  counter(
    "svc_keystore_went_back_total",
    "Times at which the shared store of keys came back without changes that were in use here.",
    ({ wentBack }) => wentBack,
  );
  gauge(
    "svc_keystore_stale",
    "1 while the newest keys cannot be used, all or some of them, and those before stay in force; else 0.",
    (status) => (status.fault ? 1 : 0),
  );
  gauge(
    "svc_keystore_refused_records",
    "Key records of the shared store that are not taken: not signed, or older than those in use.",
    ({ refused }) => refused.length,
  );
}
