import * as z from "zod";
import type { ServedNode } from "../../../backend.ts";
import { tokenCacheSetting } from "../../../conversation/segment-cache.ts";
import { weightsSetting } from "../../model-revision.ts";

export const llamaSchema = z.strictObject({
  kind: z.literal("llama").describe("The backend runs llama.cpp in the node's own process."),
  modelPath: z
    .string()
    .min(1)
    .describe("Path of the model's GGUF file; that of the demonstration model is `engine/demo-model/demo.gguf`."),
  profile: z
    .string()
    .min(1)
    .optional()
    .describe(
      "The profile of the model's family: a name of engine/profiles, or the path of a file like those. Without it, the profile that fits what the model file says of itself.",
    ),
  templatePath: z
    .string()
    .min(1)
    .optional()
    .describe(
      "The path of a file with the model's chat template in Jinja; without it, the template of the model file, which may hold none.",
    ),
  weights: weightsSetting,
  tokenCacheMegabytes: tokenCacheSetting,
  contextTokens: z
    .int()
    .min(256)
    .max(4_194_304)
    .default(4096)
    .describe("Number of tokens that a prompt and its answer may have together; each slot has room for so many."),
  slots: z
    .int()
    .min(1)
    .max(255)
    .default(4)
    .describe(
      "Number of generations that run at once; the KV memory grows with each, and has room for one more, which is kept empty for the next new conversation.",
    ),
  threads: z
    .union([z.literal("auto"), z.int().min(1).max(512)])
    .default("auto")
    .describe(
      "CPU threads that compute; more than free cores make it many times slower. auto takes all cores but one, both of two, one for a model file below 50 MB, and fewer where they do not get their cores.",
    ),
  gpu: z
    .union([z.literal("auto"), z.literal(false), z.enum(["cuda", "vulkan", "metal"])])
    .default("auto")
    .describe(
      "Accelerator: auto takes the best one whose driver is found, or the processor where that cannot compute a token at the start; false takes none. A named one that cannot compute stops the start.",
    ),
  gpuLayers: z
    .union([z.enum(["auto", "max"]), z.int().min(0).max(10_000)])
    .default("auto")
    .describe(
      "Layers that the accelerator holds, the CPU computes the others: auto takes as many as fit beside the KV memory of all slots, max all. A number that does not fit stops the start. Several accelerators share the layers.",
    ),
  flashAttention: z
    .union([z.literal("auto"), z.boolean()])
    .default("auto")
    .describe(
      "Whether attention is computed without writing its whole matrix, which is faster and takes less memory: auto does so where the model and the accelerator can.",
    ),
  undeclaredProperties: z
    .boolean()
    .default(false)
    .describe(
      "Whether an object held to a schema may have properties that a silent schema does not declare; declared ones may then come in another order too, as far as that costs little. Without it a model writes the declared ones, in the schema's order.",
    ),
});

export type QueueBounds = {
  readonly queueLength: number;
  readonly maxQueueWaitMs: number;
};

/** The bounds of the queue in a node: the gateway's queue holds longer. */
export const QUEUE_BOUNDS: QueueBounds = { queueLength: 64, maxQueueWaitMs: 30_000 };

export type LlamaOptions = ServedNode &
  QueueBounds &
  Omit<Readonly<z.output<typeof llamaSchema>>, "kind"> & {
    /** The most prompt tokens of one step, of all prompts together. Default: 512 on accelerators, else 256. */
    readonly batchTokens?: number;
  };
