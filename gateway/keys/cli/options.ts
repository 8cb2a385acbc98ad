import { type Command, InvalidArgumentError } from "commander";
import { CATALOG, findModel } from "../../catalog.ts";
import { isNetwork } from "../allowed-networks.ts";
import type { KeyLimits, KeyQuota } from "../key-record.ts";

/* Parsers of option values. Each throws commander's InvalidArgumentError, which ends in a usage error. */

/** Parses a list of models: `svc-qwen,+my-model` to catalog ids, `*` or `all` to "all". */
export function parseModels(text: string): readonly string[] | "all" {
  if (text === "*" || text === "all") return "all";
  const ids = text.split(",").map((id) => parseModel(id.trim()));
  if (ids.some((id) => id === undefined)) {
    const known = CATALOG.map((model) => model.id).join(", ");
    throw new InvalidArgumentError(
      `Not in the catalog. Models are: ${known}; or all. A plus before an id says that it is one of a gateway's own catalog.`,
    );
  }
  return [...new Set(ids.filter((id) => id !== undefined))];
}

/**
 * Parses the id of a model: one of the default catalog, or any id after a plus, because a gateway may have a catalog of
 * its own. Undefined for any other text, so that a typo is reported.
 */
export function parseModel(text: string): string | undefined {
  return findModel(text)?.id ?? /^\+([A-Za-z0-9][A-Za-z0-9._-]{0,63})$/.exec(text)?.[1];
}

/** Parses a list of addresses and networks: `10.0.0.0/8,2001:db8::1` to its entries, `any` to "any". */
export function parseNetworks(text: string): readonly string[] | "any" {
  if (text === "any") return "any";
  const networks = [...new Set(text.split(",").map((entry) => entry.trim()))];
  if (networks.length > 64 || !networks.every(isNetwork))
    throw new InvalidArgumentError("Expected at most 64 addresses or networks such as 10.0.0.0/8, or any.");
  return networks;
}

export function parseCount(text: string): number {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : 0;
  if (value < 1) throw new InvalidArgumentError("Expected a whole number of at least 1.");
  return value;
}

export function parseKept(text: string): number {
  const value = text === "0" ? 0 : parseCount(text);
  if (value > 15) throw new InvalidArgumentError("Expected a whole number of at most 15.");
  return value;
}

export function parseWeight(text: string): number {
  const value = parseCount(text);
  if (value > 1000) throw new InvalidArgumentError("Expected a whole number of at most 1000.");
  return value;
}

export function parseOverlapMs(text: string): number {
  const ms = parseDurationMs(text);
  if (ms === undefined) throw new InvalidArgumentError("Expected a duration such as 90s, 30m, 24h, 90d or 0.");
  return ms;
}

export function parseLifetimeMs(text: string): number {
  const ms = parseOverlapMs(text);
  if (ms === 0) throw new InvalidArgumentError("A key should live for longer than 0.");
  return ms;
}

/** Parses a text of 1 to 128 characters without control characters, which a terminal would interpret. */
export function parseLabel(text: string): string {
  if (!/^[^\p{C}]{1,128}$/u.test(text))
    throw new InvalidArgumentError("Expected 1 to 128 characters without control characters.");
  return text;
}

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** 100 years of 365 days. */
const MAX_DURATION_MS = 100 * 365 * 86_400_000;

/** Parses `90s`, `30m`, `24h`, `90d` or `0` into milliseconds; undefined for anything else. */
export function parseDurationMs(text: string): number | undefined {
  if (text === "0") return 0;
  const match = /^([0-9]{1,12})([smhd])$/.exec(text);
  const unitMs = UNIT_MS[match?.[2] ?? ""];
  if (unitMs === undefined) return undefined;
  const ms = Number(match?.[1]) * unitMs;
  return ms <= MAX_DURATION_MS ? ms : undefined;
}

/**
 * Reads the first line of `input` and trims it. Reads no more than the line, or than `maxLength` characters need; the
 * result may then be longer than `maxLength`, but is cut.
 */
export async function readLine(input: AsyncIterable<string | Uint8Array>, maxLength: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of input) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    if (text.includes("\n") || text.length > maxLength) break;
  }
  return (text.split("\n")[0] ?? "").trim();
}

type PerModel = NonNullable<KeyLimits["perModel"]>;

/** The limits of a key as command options; options that were not given are absent. */
export type LimitOptions = {
  readonly rpm?: number;
  readonly itpm?: number;
  readonly otpm?: number;
  readonly concurrency?: number;
  readonly countConcurrency?: number;
  readonly queued?: number;
  readonly maxBodyBytes?: number;
  readonly maxOutputTokens?: number;
  readonly tokensPerDay?: number;
  readonly perModel?: PerModel;
};

const RATES = ["rpm", "itpm", "otpm", "concurrency"];

/** The names that `--clear` takes, by their fields in a record. */
const CLEARABLE: Readonly<Record<string, string>> = {
  rpm: "rpm",
  itpm: "itpm",
  otpm: "otpm",
  concurrency: "concurrency",
  "count-concurrency": "countConcurrency",
  queued: "queued",
  "max-body-bytes": "maxBodyBytes",
  "max-output-tokens": "maxOutputTokens",
  "tokens-per-day": "tokensPerDay",
  "per-model": "perModel",
};

export function addLimitOptions(command: Command): Command {
  return command
    .option("--rpm <n>", "requests per minute", parseCount)
    .option("--itpm <n>", "input tokens per minute", parseCount)
    .option("--otpm <n>", "output tokens per minute", parseCount)
    .option("--concurrency <n>", "generations at one time", parseCount)
    .option("--count-concurrency <n>", "token counts at one time", parseCount)
    .option("--queued <n>", "requests that may wait at one time for one model", parseCount)
    .option("--max-body-bytes <n>", "largest request body", parseCount)
    .option("--max-output-tokens <n>", "longest answer", parseCount)
    .option("--tokens-per-day <n>", "quota of input and output tokens per day in UTC", parseCount)
    .option("--per-model <model:limits>", "such as svc-qwen:rpm=10,otpm=500; may be repeated", parsePerModel);
}

export function limitsOf(options: LimitOptions): { limits: KeyLimits; quota: KeyQuota } {
  const { tokensPerDay, rpm, itpm, otpm, concurrency, countConcurrency, ...rest } = options;
  const { queued, maxBodyBytes, maxOutputTokens, perModel } = rest;
  return {
    limits: { rpm, itpm, otpm, concurrency, countConcurrency, queued, maxBodyBytes, maxOutputTokens, perModel },
    quota: { tokensPerDay },
  };
}

/**
 * Parses names of limits to remove: `rpm,svc-qwen` to the names in records, `all` to "all". Throws
 * InvalidArgumentError.
 */
export function parseClear(text: string): ReadonlySet<string> | "all" {
  if (text === "all") return "all";
  return new Set(
    text.split(",").map((name) => {
      const known = Object.hasOwn(CLEARABLE, name) ? CLEARABLE[name] : parseModel(name);
      if (known !== undefined) return known;
      throw new InvalidArgumentError(`Expected names of ${Object.keys(CLEARABLE).join(", ")}, model ids, or all.`);
    }),
  );
}

function parsePerModel(text: string, before: PerModel = {}): PerModel {
  const [id = "", list = ""] = text.split(":", 2);
  const model = parseModel(id);
  if (model === undefined) throw new InvalidArgumentError("Expected a model of the catalog before the colon.");
  const limits = list.split(",").map((pair) => {
    const [name = "", value = ""] = pair.split("=", 2);
    if (!RATES.includes(name))
      throw new InvalidArgumentError(`Expected limits such as rpm=10, of ${RATES.join(", ")}.`);
    return [name, parseCount(value)] as const;
  });
  return { ...before, [model]: Object.fromEntries(limits) };
}
