import { type Command, InvalidArgumentError } from "commander";
import type { KeyLimits, KeyQuota } from "../key-record.ts";
import { parseCount, parseModel } from "./options.ts";

type PerModel = NonNullable<KeyLimits["perModel"]>;

/** The limits of a key as command options; options that were not given are absent. */
export type LimitOptions = {
  readonly rpm?: number;
  readonly itpm?: number;
  /** Reasoning included. */
  readonly otpm?: number;
  /** Generations at one time. */
  readonly concurrency?: number;
  readonly countConcurrency?: number;
  /** Waiting requests per model. */
  readonly queued?: number;
  /** Bytes. */
  readonly maxBodyBytes?: number;
  /** Longest answer, in tokens. */
  readonly maxOutputTokens?: number;
  /** Input and output tokens per day in UTC. */
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
