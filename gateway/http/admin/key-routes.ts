import type { KeyStore } from "../../keys/key-store.ts";
import type { DimensionReading } from "../../limits/dimension.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { KeyUsage } from "../../usage/key-usage.ts";
import {
  addCounts,
  DAY_MS,
  NO_USE,
  type StoredUsage,
  type UsageCounts,
  type UsageEntry,
} from "../../usage/usage-store.ts";
import { type AdminRoute, jsonReply, reads } from "./admin-route.ts";

/** The most refused records that are listed. */
const MOST_NAMED = 20;

const NO_KEY = { status: 404, body: "no such key\n" };

const NO_STORE = { status: 503, body: "the store that counts the use of keys does not answer\n" };

/** Makes the paths that show the keys in force and their usage, without secrets or digests. */
export function keyRoutes(
  keys: KeyStore,
  limiter: Limiter,
  usage: Pick<KeyUsage, "read" | "today">,
): readonly AdminRoute[] {
  return [
    reads("/keys/today", "the keys used last at this gateway, with their requests and tokens of today", async () => {
      const used = await usage.today();
      if (!used) return NO_STORE;
      const rows = used.flatMap(([keyId, counts]) => {
        const principal = keys.byId(keyId);
        return principal ? [{ key_id: keyId, name: principal.name, owner: principal.owner, ...shown(counts) }] : [];
      });
      return jsonReply({ keys: rows });
    }),
    reads("/keys/status", "how many keys are in force, since when, and whether the newest file could be used", () => {
      const { keys: total, counts, revision, loadedAtMs, loadErrors, fault, refused } = keys.status();
      return jsonReply({
        keys: total,
        ...counts,
        revision,
        last_load: new Date(loadedAtMs).toISOString(),
        load_errors: loadErrors,
        stale: fault !== undefined,
        ...(fault !== undefined && { fault }),
        ...(refused.length > 0 && { refused: refused.length, refused_keys: refused.slice(0, MOST_NAMED) }),
      });
    }),
    reads("/limits/:keyId", "what the key may use yet, and the permits it holds here", async ({ params }) => {
      const principal = keys.byId(params.keyId ?? "");
      if (!principal) return NO_KEY;
      const { counted, permits } = await limiter.look(principal);
      return jsonReply({
        key_id: principal.keyId,
        limits: counted.map(level),
        places: permits.map(({ of, model, limit, taken }) => {
          return { of, ...(model !== undefined && { model }), limit, taken };
        }),
      });
    }),
    reads(
      "/keys/:keyId/usage",
      "requests and tokens of the key in the last 31 days, by day and model, at all gateways that count together",
      async ({ params }) => {
        const principal = keys.byId(params.keyId ?? "");
        if (!principal) return NO_KEY;
        const stored = await usage.read(principal.keyId);
        if (!stored) return NO_STORE;
        return jsonReply({ key_id: principal.keyId, ...usageJson(stored) });
      },
    ),
  ];
}

/** Returns a key's usage: in total, and by day, the newest first, and model. */
function usageJson({ sinceMs, entries }: StoredUsage) {
  const days = [...new Set(entries.map(({ day }) => day))].sort((one, other) => other - one);
  return {
    since: new Date(sinceMs).toISOString(),
    total: countsJson(entries),
    days: days.map((day) => {
      const ofDay = entries.filter((entry) => entry.day === day);
      const models = ofDay.filter(({ model }) => model !== "").sort((a, b) => (a.model < b.model ? -1 : 1));
      return {
        day: new Date(day * DAY_MS).toISOString().slice(0, 10),
        ...countsJson(ofDay),
        models: models.map((entry) => ({ model: entry.model, ...countsJson([entry]) })),
      };
    }),
  };
}

function countsJson(entries: readonly UsageEntry[]) {
  return shown(entries.reduce((sums, { counts }) => addCounts(sums, counts), NO_USE));
}

function shown(sum: UsageCounts) {
  return {
    requests: sum.requests,
    refused: sum.refused,
    input_tokens: sum.inputTokens,
    cached_input_tokens: sum.cachedTokens,
    output_tokens: sum.outputTokens,
  };
}

function level({ dimension: { measure, model, limit, rule }, reading: { remaining, resetMs } }: DimensionReading) {
  return {
    limit: measure,
    ...(model !== undefined && { model }),
    per: rule.kind === "day" ? "day" : "minute",
    value: limit,
    capacity: rule.kind === "day" ? rule.total : rule.capacity,
    remaining,
    full_in_ms: resetMs,
  };
}
