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
    "Load time of the keys in use, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  counter("svc_keystore_load_errors_total", "Failed attempts to load the newest keys.", (s) => s.loadErrors);
  counter(
    "svc_keystore_went_back_total",
    "Returns of the shared key store without changes that were in use here.",
    ({ wentBack }) => wentBack,
  );
  gauge(
    "svc_keystore_stale",
    "1 while some of the newest keys are unusable and earlier ones stay in force; else 0.",
    (status) => (status.fault ? 1 : 0),
  );
  gauge(
    "svc_keystore_refused_records",
    "Refused key records of the shared store: not signed, or older than those in use.",
    ({ refused }) => refused.length,
  );
}
