import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisLimitStore, type RedisLimitStoreOptions } from "../../../gateway/limits/redis/redis-limit-store.ts";
import { RedisState } from "../../../gateway/state/redis-state.ts";
import { stateSchema } from "../../../gateway/state/state-settings.ts";
import type { RedisProcess } from "./redis-process.ts";

/** Settings of a connection, and the milliseconds after which an answer is late on its clock. */
type Settings = { readonly commandTimeoutMs?: number; readonly clock?: Clock; readonly [setting: string]: unknown };

/** Makes a connection to a test Redis, and waits for its first attempt. */
export async function connectTo(
  redis: RedisProcess,
  { commandTimeoutMs = 1_000, clock = systemClock, ...settings }: Settings = {},
): Promise<RedisState> {
  const { redis: checked } = stateSchema.parse({ redis: { url: `redis://${redis.address}`, ...settings } });
  if (!checked) throw new Error("there are settings");
  const state = new RedisState({ settings: checked, clock, commandTimeoutMs });
  await state.connect();
  return state;
}

export type OpenLimits = { readonly store: RedisLimitStore; readonly said: string[]; close(): Promise<void> };

export async function openLimits(
  redis: RedisProcess,
  settings: Settings = {},
  own: Partial<RedisLimitStoreOptions> = {},
): Promise<OpenLimits> {
  const state = await connectTo(redis, settings);
  const said: string[] = [];
  const { clock = systemClock } = settings;
  const store = await RedisLimitStore.open({
    ...{ state, clock, onAway: (fault) => said.push(fault), onBack: () => said.push("back") },
    ...own,
  });
  return {
    store,
    said,
    async close() {
      await store.close();
      state.close();
    },
  };
}
