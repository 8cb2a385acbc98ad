import { pino } from "pino";
import type { Registry } from "prom-client";
import { EngineMetrics, registerNodeGauges } from "../../engine/metrics/engine-metrics.ts";
import {
  registerClusterGauges,
  registerOverloadGauges,
  registerSocketGauges,
  registerTrafficGauges,
} from "../../gateway/http/admin/gauges.ts";
import { registerKeyStats } from "../../gateway/keys/key-stats.ts";
import type { KeyStoreStatus } from "../../gateway/keys/key-store.ts";
import { registerLimitStats } from "../../gateway/limits/redis/redis-limit-store.ts";
import { OverloadManager } from "../../gateway/overload/overload-manager.ts";
import { overloadSchema } from "../../gateway/overload/overload-settings.ts";
import { registerSealingStats } from "../../gateway/sealing/followed-sealing.ts";
import { Stats } from "../../gateway/stats/stats.ts";
import { ClusterManager } from "../../gateway/upstream/cluster/cluster-manager.ts";
import { KeySeries } from "../../gateway/usage/key-series.ts";
import { registerCertificateGauge } from "../runtime/metrics/certificate-gauge.ts";
import { systemClock } from "../runtime/time/clock.ts";

const NO_KEYS: KeyStoreStatus = {
  ...{ keys: 0, counts: { active: 0, disabled: 0, revoked: 0 }, revision: 0, loadedAtMs: 0, loadErrors: 0 },
  ...{ fault: undefined, refused: [], wentBack: 0 },
};

export function gatewayRegistry(): Registry {
  const { registry } = new Stats();
  const overload = new OverloadManager(overloadSchema.parse({}), systemClock);
  registerKeyStats(registry, () => NO_KEYS);
  new KeySeries(registry, systemClock.nowMs);
  registerClusterGauges(registry, new ClusterManager([], systemClock, pino({ enabled: false })));
  registerTrafficGauges(registry, [], { answers: 0, bytes: 0, maxBytes: 0 });
  registerSocketGauges(registry, { open: 0 }, { bytes: 0 });
  registerLimitStats(registry, () => true);
  registerOverloadGauges(registry, overload);
  registerCertificateGauge(registry, () => []);
  registerSealingStats(registry, { keyIds: [], openings: { opened: 0, unknown_key: 0, refused: 0 } });
  overload.close();
  return registry;
}

export function engineRegistry(): Registry {
  const { registry } = new EngineMetrics();
  registerCertificateGauge(registry, () => []);
  registerNodeGauges(registry, {
    load: () => ({ slots: 0, busySlots: 0, waiting: 0 }),
    rates: () => ({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined }),
    running: () => 0,
    pausedStreams: () => 0,
    stepAgeMs: () => 0,
    promptBytes: () => 0,
    gpuMemoryBytes: async () => undefined,
    engine: () => "",
  });
  return registry;
}
