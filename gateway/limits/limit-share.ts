import type { LimitRule, PlaceItem } from "./limit-store.ts";

/** Returns the rule by which one of `gateways` counts that go by equal shares of a limit, as they cannot count together. */
export function shareOf(rule: LimitRule, gateways: number): LimitRule {
  if (rule.kind === "day") return { kind: "day", total: rule.total / gateways };
  // Below 1 not even a single request could ever be let in.
  return { ...rule, perMinute: rule.perMinute / gateways, capacity: Math.max(1, rule.capacity / gateways) };
}

/** Returns the equal share that one of `gateways` has of a key's places: whole ones, and at least 1. */
export function placeShareOf({ name, limit }: PlaceItem, gateways: number): PlaceItem {
  return { name, limit: Math.max(1, Math.floor(limit / gateways)) };
}
