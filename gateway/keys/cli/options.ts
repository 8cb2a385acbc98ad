import { InvalidArgumentError } from "commander";
import { CATALOG, findModel } from "../../catalog.ts";
import { parseDurationMs } from "./duration.ts";

/** Parsers of option values. Each throws commander's InvalidArgumentError, which ends in a usage error. */

/** `svc-qwen,svc-glm53` to catalog ids, `*` or `all` to "all". */
export function parseModels(text: string): readonly string[] | "all" {
  if (text === "*" || text === "all") return "all";
  const ids = [...new Set(text.split(",").map((id) => id.trim()))];
  if (ids.some((id) => findModel(id) === undefined)) {
    const known = CATALOG.map((model) => model.id).join(", ");
    throw new InvalidArgumentError(`Not in the catalog. Models are: ${known}; or all.`);
  }
  return ids;
}

/** A whole number of at least 1. */
export function parseCount(text: string): number {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : 0;
  if (value < 1) throw new InvalidArgumentError("Expected a whole number of at least 1.");
  return value;
}

/** A whole number from 1 to 1000. */
export function parseWeight(text: string): number {
  const value = parseCount(text);
  if (value > 1000) throw new InvalidArgumentError("Expected a whole number of at most 1000.");
  return value;
}

/** Milliseconds; 0 is allowed. */
export function parseOverlapMs(text: string): number {
  const ms = parseDurationMs(text);
  if (ms === undefined) throw new InvalidArgumentError("Expected a duration such as 90s, 30m, 24h, 90d or 0.");
  return ms;
}

/** Milliseconds, more than 0. */
export function parseLifetimeMs(text: string): number {
  const ms = parseOverlapMs(text);
  if (ms === 0) throw new InvalidArgumentError("A key should live for longer than 0.");
  return ms;
}

/** 1 to 128 characters, none of them a control character: the text is shown in terminals. */
export function parseLabel(text: string): string {
  if (!/^[^\p{C}]{1,128}$/u.test(text))
    throw new InvalidArgumentError("Expected 1 to 128 characters without control characters.");
  return text;
}
