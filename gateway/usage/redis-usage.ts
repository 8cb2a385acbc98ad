import { randomBytes } from "node:crypto";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { RedisScript, type RedisState } from "../state/redis-state.ts";
import {
  DAY_MS,
  entryName,
  KEPT_DAYS,
  NO_USE,
  type StoredUsage,
  USAGE_NAMES,
  type UsageBatch,
  type UsageEntry,
  type UsageStore,
} from "./usage-store.ts";

const KEYS_AT_ONCE = 64;

/*
 * One hash holds the use of a key, so that a Cluster keeps it in one slot:
 *
 *   u|<day>|<number of a count>|<model>   a sum
 *   s|<gateway>                           the newest batch of a gateway in the sums, and its day
 *   today                                 the day of the last removal of expired days
 */
const ADD_SCRIPT = new RedisScript(`
local request = cjson.decode(ARGV[1])
local own = 's|' .. request.gateway
local newest = tonumber(string.match(redis.call('HGET', KEYS[1], own) or '0', '^%d+'))
if request.number <= newest then return 0 end
for _, part in ipairs(request.parts) do redis.call('HINCRBY', KEYS[1], part[1], part[2]) end
redis.call('HSET', KEYS[1], own, request.number .. ' ' .. request.today)
if redis.call('HGET', KEYS[1], 'today') ~= tostring(request.today) then
  redis.call('HSET', KEYS[1], 'today', tostring(request.today))
  local flat = redis.call('HGETALL', KEYS[1])
  for i = 1, #flat, 2 do
    local day = tonumber(string.match(flat[i], '^u|(%d+)|'))
    local batched = tonumber(string.match(flat[i], '^s|') and string.match(flat[i + 1], '%d+$'))
    if day and day <= request.today - ${KEPT_DAYS} or batched and batched < request.today - 1 then
      redis.call('HDEL', KEYS[1], flat[i])
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ${(KEPT_DAYS + 1) * DAY_MS})
return 1
`);

export class RedisUsage implements UsageStore {
  readonly #state: RedisState;
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #gateway = randomBytes(8).toString("base64url");

  constructor(state: RedisState, clock: Pick<Clock, "wallMs">) {
    this.#state = state;
    this.#clock = clock;
  }

  async add({ number, entries }: UsageBatch): Promise<boolean> {
    const byKey = new Map<string, UsageEntry[]>();
    for (const entry of entries) byKey.set(entry.keyId, [...(byKey.get(entry.keyId) ?? []), entry]);
    const all = [...byKey];
    try {
      for (let at = 0; at < all.length; at += KEYS_AT_ONCE)
        await Promise.all(all.slice(at, at + KEYS_AT_ONCE).map(([keyId, own]) => this.#add(keyId, number, own)));
      return true;
    } catch {
      return false;
    }
  }

  async read(keyId: string): Promise<StoredUsage | undefined> {
    try {
      const fields = await this.#state.ask((client) => client.hgetall(this.#state.nameOf(nameOf(keyId))));
      return { sinceMs: (this.#today - KEPT_DAYS + 1) * DAY_MS, entries: entriesOf(keyId, fields) };
    } catch {
      return undefined;
    }
  }

  get #today(): number {
    return Math.floor(this.#clock.wallMs() / DAY_MS);
  }

  async #add(keyId: string, number: number, entries: readonly UsageEntry[]): Promise<void> {
    const parts = entries.flatMap(({ day, model, counts }) =>
      USAGE_NAMES.flatMap((name, at) => (counts[name] === 0 ? [] : [[`u|${day}|${at}|${model}`, counts[name]]])),
    );
    const request = { gateway: this.#gateway, number, today: this.#today, parts };
    await this.#state.run(ADD_SCRIPT, [nameOf(keyId)], JSON.stringify(request));
  }
}

/** Returns the name of a key's entry. The braces make the id the only part that determines the Cluster slot. */
function nameOf(keyId: string): string {
  return `usage:{${keyId}}`;
}

function entriesOf(keyId: string, fields: Readonly<Record<string, string>>): UsageEntry[] {
  const entries = new Map<string, UsageEntry>();
  for (const [field, value] of Object.entries(fields)) {
    const [, day = "", at = "", model = ""] = /^u\|(\d+)\|(\d)\|(.*)$/.exec(field) ?? [];
    const name = USAGE_NAMES[Number(at)];
    if (day === "" || !name) continue;
    const own = { keyId, day: Number(day), model };
    const counts = { ...(entries.get(entryName(own))?.counts ?? NO_USE), [name]: Number(value) };
    entries.set(entryName(own), { ...own, counts });
  }
  return [...entries.values()];
}
