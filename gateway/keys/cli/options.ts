import { type Command, InvalidArgumentError } from "commander";
import { CATALOG, findModel } from "../../catalog.ts";
import { isNetwork } from "../allowed-networks.ts";
import { type KeyLimits, type KeyQuota, LIMIT_FIELDS } from "../key-record.ts";

/* Parsers of option values. Each throws commander's InvalidArgumentError, which ends in a usage error. */

/** Parses a list of models: `svc-qwen,+my-model` to catalog ids, `*` or `all` to `*`. */
export function parseModels(text: string): string[] {
  if (text === "*" || text === "all") return ["*"];
  const ids = text.split(",").map((id) => parseModel(id.trim()));
  if (ids.some((id) => id === undefined)) {
    const known = CATALOG.map((model) => model.id).join(", ");
    throw new InvalidArgumentError(
      `Not in the catalog. Models are: ${known}; or all. A plus before an id says that it is one of a gateway's own catalog.`,
    );
  }
  return [...new Set(ids.filter((id) => id !== undefined))];
}

/** An id of the default catalog, or any after a plus, for other catalogs. Undefined for others: typos are reported. */
export function parseModel(text: string): string | undefined {
  return findModel(text)?.id ?? /^\+([A-Za-z0-9][A-Za-z0-9._-]{0,63})$/.exec(text)?.[1];
}

/** Parses a list of addresses and networks: `10.0.0.0/8,2001:db8::1` to its entries, `any` to null. */
export function parseNetworks(text: string): string[] | null {
  if (text === "any") return null;
  const networks = [...new Set(text.split(",").map((entry) => entry.trim()))];
  if (networks.length > 64 || !networks.every(isNetwork))
    throw new InvalidArgumentError("Expected at most 64 addresses or networks such as 10.0.0.0/8, or any.");
  return networks;
}

const MOST = 10 ** 15 - 1;

const parseWhole = (least: number, most: number) => (text: string) => {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : -1;
  if (value >= least && value <= most) return value;
  const bound = most < MOST ? ` and at most ${most}` : "";
  throw new InvalidArgumentError(`Expected a whole number of at least ${least}${bound}.`);
};

export const parseCount = parseWhole(1, MOST);
export const parseKept = parseWhole(0, 15);
export const parseRevision = parseWhole(0, MOST);
export const parseWeight = parseWhole(1, 1_000);

export function parseLifetimeMs(text: string): number {
  const ms = parseDurationMs(text);
  if (ms === 0) throw new InvalidArgumentError("A key should live for longer than 0.");
  return ms;
}

/** Parses a text of 1 to 128 characters without control characters, which a terminal would interpret. */
export function parseLabel(text: string): string {
  if (!/^[^\p{C}]{1,128}$/u.test(text))
    throw new InvalidArgumentError("Expected 1 to 128 characters without control characters.");
  return text;
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** 100 years of 365 days. */
const MAX_DURATION_MS = 100 * 365 * 86_400_000;

/** Parses `90s`, `30m`, `24h`, `90d` or `0` into milliseconds. */
export function parseDurationMs(text: string): number {
  if (text === "0") return 0;
  const [, count, unit = ""] = /^([0-9]{1,12})([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNIT_MS[unit] ?? Number.NaN);
  if (ms <= MAX_DURATION_MS) return ms;
  throw new InvalidArgumentError("Expected a duration such as 90s, 30m, 24h, 90d or 0.");
}

/** Reads the first line, trimmed, and no more than that or `maxLength` characters need; a longer line is cut. */
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

const RATES = Object.keys(LIMIT_FIELDS.rates);
const FIELDS = Object.entries({ ...LIMIT_FIELDS.limits, ...LIMIT_FIELDS.quota });

/** The limits of a key as command options; options that were not given are absent. */
export type LimitOptions = KeyLimits & KeyQuota;

const optionOf = (field: string) => field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The names that `--clear` takes, by their fields in a record. */
const CLEARABLE = new Map(FIELDS.map(([field]) => [optionOf(field), field]));

export function addLimitOptions(command: Command): Command {
  for (const [field, { description }] of FIELDS)
    if (description !== undefined) command.option(`--${optionOf(field)} <n>`, description, parseCount);
  return command.option(
    "--per-model <model:limits>",
    "such as svc-qwen:rpm=10,otpm=500; may be repeated",
    parsePerModel,
  );
}

/** Returns the options of a command with limits and quota as a record has them. */
export function splitLimits<T extends LimitOptions>(options: T) {
  const isLimit = (name: string) => name in LIMIT_FIELDS.limits;
  const isQuota = (name: string) => name in LIMIT_FIELDS.quota;
  const limits: KeyLimits = pick(options, isLimit);
  const quota: KeyQuota = pick(options, isQuota);
  const others: Omit<T, keyof LimitOptions> = pick(options, (name) => !isLimit(name) && !isQuota(name));
  return { ...others, limits, quota };
}

export function pick<T extends object>(values: T, wanted: (name: string) => boolean): T {
  return Object.fromEntries(Object.entries(values).filter(([name]) => wanted(name))) as T;
}

/** Limits to remove: names of fields, or ids of models for their own limits. */
export type Cleared = ReadonlySet<string> | "all";

/** Parses limits to remove: `rpm,svc-qwen`, or `all`. Throws InvalidArgumentError. */
export function parseClear(text: string): Cleared {
  if (text === "all") return "all";
  return new Set(
    text.split(",").map((name) => {
      const known = CLEARABLE.get(name) ?? parseModel(name);
      if (known !== undefined) return known;
      throw new InvalidArgumentError(`Expected names of ${[...CLEARABLE.keys()].join(", ")}, model ids, or all.`);
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
