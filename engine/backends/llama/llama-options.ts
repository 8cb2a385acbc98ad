import * as z from "zod";
import type { ServedNode } from "../backend-kind.ts";

/** The configuration of a node that runs llama.cpp in its own process. */
export const llamaSchema = z.strictObject({
  kind: z.literal("llama").describe("llama.cpp runs in the node's own process."),
  modelPath: z.string().min(1).describe("The GGUF file."),
  profile: z
    .string()
    .min(1)
    .optional()
    .describe("The model's family: a name of engine/profiles, or a path. Absent: by what the file says of itself."),
  contextTokens: z.int().min(256).max(4_194_304).default(4096).describe("Prompt and answer together, per slot."),
  slots: z.int().min(1).max(256).default(4).describe("Generations at once; the KV memory grows with each."),
  threads: z
    .union([z.literal("auto"), z.int().min(1).max(512)])
    .default("auto")
    .describe("CPU threads. More than the cores that are free makes it many times slower."),
  gpu: z
    .union([z.literal("auto"), z.literal(false), z.enum(["cuda", "vulkan", "metal"])])
    .default("auto")
    .describe("Which accelerator; auto takes the best one whose driver is found."),
  batchTokens: z
    .int()
    .min(32)
    .max(8192)
    .default(256)
    .describe("Prompt tokens per step, of all prompts together; other streams wait for one step."),
  queueLength: z.int().min(0).max(100_000).default(64).describe("Requests that may wait for a slot."),
  maxQueueWaitMs: z.int().min(1).default(30_000).describe("How long one may wait."),
});

/** How the in-process engine is set up. */
export type LlamaOptions = ServedNode & Omit<Readonly<z.output<typeof llamaSchema>>, "kind">;
