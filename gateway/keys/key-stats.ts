import { Counter, Gauge, type Registry } from "prom-client";
import type { KeyStoreStatus } from "./key-store.ts";

export function registerKeyStats(registry: Registry, status: () => KeyStoreStatus): void {
  const metric = (name: string, help: string, value: (status: KeyStoreStatus) => number) => {
    const collect = function (this: Counter | Gauge) {
      this.reset();
      this.inc(value(status()));
    };
    const options = { name, help, registers: [registry], collect };
    return name.endsWith("_total") ? new Counter(options) : new Gauge(options);
  };
  metric("svc_keystore_keys", "Key records in use, whatever their status.", ({ keys }) => keys);
  metric(
    "svc_keystore_last_success_timestamp_seconds",
    "Load time of the keys in use, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  metric("svc_keystore_load_errors_total", "Failed attempts to load the newest keys.", ({ loadErrors }) => loadErrors);
  metric(
    "svc_keystore_went_back_total",
    "Returns of the shared key store without changes that were in use here.",
    ({ wentBack }) => wentBack,
  );
  metric(
    "svc_keystore_stale",
    "1 while some of the newest keys are unusable and earlier ones stay in force; else 0.",
    ({ fault }) => (fault ? 1 : 0),
  );
  metric(
    "svc_keystore_refused_records",
    "Refused key records of the shared store: altered, missing, or older ones.",
    ({ refused }) => refused.length,
  );
}
