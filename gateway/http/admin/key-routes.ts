import type { KeyStore } from "../../keys/key-store.ts";
import type { DimensionReading } from "../../limits/dimension.ts";
import type { Limiter } from "../../limits/limiter.ts";
import { type AdminRoute, jsonReply } from "./admin-route.ts";

/**
 * Makes the paths that show the keys in force and what they have used. They show ids only: neither secrets nor digests
 * nor names.
 */
export function keyRoutes(keys: KeyStore, limiter: Limiter): readonly AdminRoute[] {
  return [
    {
      path: "/keys/status",
      does: "reads",
      help: "how many keys are in force, since when, and whether the newest file could be used",
      handle() {
        const { keys: total, counts, revision, loadedAtMs, loadErrors, fault } = keys.status();
        return jsonReply({
          keys: total,
          ...counts,
          revision,
          last_load: new Date(loadedAtMs).toISOString(),
          load_errors: loadErrors,
          stale: fault !== undefined,
          ...(fault !== undefined && { fault }),
        });
      },
    },
    {
      path: "/limits/:keyId",
      does: "reads",
      help: "what the key may use yet, and the places it holds here",
      async handle({ params }) {
        const principal = keys.byId(params.keyId ?? "");
        if (!principal) return { status: 404, body: "no such key\n" };
        const { counted, places } = await limiter.look(principal);
        return jsonReply({
          key_id: principal.keyId,
          limits: counted.map(level),
          places: places.map(({ of, model, limit, taken }) => {
            return { of, ...(model !== undefined && { model }), limit, taken };
          }),
        });
      },
    },
  ];
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
