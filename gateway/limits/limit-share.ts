import type { LimitRule, PlaceItem } from "./limit-store.ts";

/** Returns the rule of one of `gateways` that use equal shares of a limit, because they cannot count together. */
export function shareOf(rule: LimitRule, gateways: number): LimitRule {
  if (rule.kind === "day") return { kind: "day", total: rule.total / gateways };
  // Below 1, not even one request would ever pass.
  return { ...rule, perMinute: rule.perMinute / gateways, capacity: Math.max(1, rule.capacity / gateways) };
}

/** Returns one gateway's equal share of a key's places: whole places, and at least 1. */
export function placeShareOf({ name, limit }: PlaceItem, gateways: number): PlaceItem {
  return { name, limit: Math.max(1, Math.floor(limit / gateways)) };
}
