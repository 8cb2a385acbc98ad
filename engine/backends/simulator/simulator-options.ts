import * as z from "zod";
import type { ServedNode } from "../backend-kind.ts";

const rate = (what: string) => z.number().positive().max(10_000_000).describe(what);

/** The configuration of a node that simulates an engine. */
export const simulatorSchema = z.strictObject({
  kind: z.literal("simulator").describe("The backend makes up tokens at set rates, for tests of load and routing."),
  tokensPerSecond: rate("The tokens a second that each running generation makes, however many run.").default(50),
  prefillTokensPerSecond: rate(
    "The prompt tokens a second that the node reads; it reads prompts one after the other.",
  ).default(5_000),
  timeToFirstTokenMs: z
    .number()
    .min(0)
    .max(600_000)
    .default(50)
    .describe("The time, in milliseconds, from the end of a prefill to the first token."),
  slots: z.int().min(1).max(100_000).default(16).describe("The number of generations that run at once."),
  queueLength: z.int().min(0).max(100_000).default(64).describe("The number of requests that may wait for a slot."),
  contextTokens: z
    .int()
    .min(2)
    .max(4_194_304)
    .default(262_144)
    .describe("The number of tokens that a prompt and its answer may have together."),
  kvTokens: z
    .int()
    .min(64)
    .default(1_048_576)
    .describe("The size of the KV memory, in tokens, for what runs and for cached prefixes."),
  answerTokens: z
    .strictObject({
      min: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(16)
        .describe("The number of tokens of the shortest answer that nothing else ends."),
      max: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(256)
        .describe("The number of tokens of the longest answer that nothing else ends."),
    })
    .prefault({})
    .refine(({ min, max }) => min <= max, "min must not be more than max")
    .describe("The length of answers that nothing else ends, drawn for each request."),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("The share of itself, 0 to 1, by which a step may take longer or shorter."),
  seed: z
    .int()
    .min(0)
    .max(4_294_967_295)
    .default(1)
    .describe("The seed of the made-up text: the same request gets the same text under the same seed."),
  failure: z
    .union([
      z.literal("none"),
      z.strictObject({
        afterTokens: z.int().min(0).describe("The number of tokens after which every stream breaks off."),
      }),
    ])
    .default("none")
    .describe("Whether answers fail: with afterTokens, every stream breaks off after so many tokens."),
  stepProcess: z
    .boolean()
    .default(false)
    .describe(
      "Whether the steps are timed in a process of its own, which can be stopped; its id stands in the engine's version.",
    ),
});

/** The settings of the simulated engine, with the node's own name and models. */
export type SimulatorOptions = ServedNode & Omit<Readonly<z.output<typeof simulatorSchema>>, "kind">;

/** The injected failure, for tests of callers. */
export type InjectedFailure = SimulatorOptions["failure"];
