import * as z from "zod";
import type { ServedNode } from "../backend-kind.ts";

const rate = (what: string) => z.number().positive().max(10_000_000).describe(what);

/** The configuration of a node that simulates an engine. */
export const simulatorSchema = z.strictObject({
  kind: z.literal("simulator").describe("Makes up tokens at set rates, for tests of load and routing."),
  tokensPerSecond: rate("Of one generation; all that run advance together.").default(50),
  prefillTokensPerSecond: rate("Of the node: prompts are read one after the other.").default(5_000),
  timeToFirstTokenMs: z
    .number()
    .min(0)
    .max(600_000)
    .default(50)
    .describe("From the end of a prefill to the first token."),
  slots: z.int().min(1).max(100_000).default(16).describe("Generations at once."),
  queueLength: z.int().min(0).max(100_000).default(64).describe("Requests that may wait for a slot."),
  contextTokens: z.int().min(2).max(4_194_304).default(262_144).describe("Prompt and answer together."),
  kvTokens: z.int().min(64).default(1_048_576).describe("KV memory, for what runs and for cached prefixes."),
  answerTokens: z
    .strictObject({
      min: z.int().min(1).max(1_000_000).default(16).describe("Tokens of the shortest answer that nothing else ends."),
      max: z.int().min(1).max(1_000_000).default(256).describe("Tokens of the longest such answer."),
    })
    .prefault({})
    .refine(({ min, max }) => min <= max, "min must not be more than max")
    .describe("Length of an answer that nothing else ends."),
  jitter: z.number().min(0).max(1).default(0).describe("By how much of itself a step may take longer or shorter."),
  seed: z
    .int()
    .min(0)
    .max(4_294_967_295)
    .default(1)
    .describe("The same request gets the same text under the same seed."),
  failure: z
    .union([z.literal("none"), z.strictObject({ afterTokens: z.int().min(0) })])
    .default("none")
    .describe("Breaks every stream off that is longer."),
  stepProcess: z
    .boolean()
    .default(false)
    .describe("Times the steps in a process of its own, which can be stopped; its id stands in the engine's version."),
});

/** How the simulated engine behaves. */
export type SimulatorOptions = ServedNode & Omit<Readonly<z.output<typeof simulatorSchema>>, "kind">;

/** What fails, for tests of those who call. */
export type InjectedFailure = SimulatorOptions["failure"];
