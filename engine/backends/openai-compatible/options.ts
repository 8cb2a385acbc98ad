import * as z from "zod";
import type { ModelProfile } from "../../profiles/profile.ts";
import type { ServedNode } from "../backend-kind.ts";

/** The configuration of a node beside another engine. */
export const openAiCompatibleSchema = z.strictObject({
  kind: z.literal("openai-compatible").describe("Stands beside vLLM, SGLang or llama-server."),
  dialect: z.enum(["vllm", "sglang", "llama-server"]).describe("Which engine it is; each is sent what it understands."),
  baseUrl: z
    .url({ protocol: /^https?$/ })
    .describe("The root of the engine's server, without /v1. The node has to be its only client."),
  servedModel: z.string().min(1).optional().describe("Its name there; absent: the engine's first model."),
  profile: z
    .string()
    .min(1)
    .describe("The model's family: a name of engine/profiles, or the path of a file like those."),
  slots: z
    .int()
    .min(1)
    .max(100_000)
    .default(256)
    .describe("Generations at once, those that wait in the engine's own queue among them."),
  apiKeyFile: z.string().min(1).optional().describe("A file that holds the engine's key, sent as a bearer token."),
  startTimeoutMs: z.int().min(1).default(3_600_000).describe("How long the engine may take to come up."),
  silenceTimeoutMs: z
    .int()
    .min(0)
    .default(600_000)
    .describe("How long it may say nothing while it owes an answer, a long prefill included; 0: for ever."),
  countTimeoutMs: z.int().min(1).default(30_000).describe("How long it may take to count tokens."),
  loadIntervalMs: z.int().min(100).default(1_000).describe("How often it is asked for its load."),
  images: z.boolean().default(false).describe("The model takes images."),
  priorities: z.boolean().default(false).describe("The engine was started with priority scheduling."),
  sharedCache: z
    .boolean()
    .default(false)
    .describe("llama-server cannot keep tenants apart: true lets them share its prefix cache, false switches it off."),
});

/** How an engine beside the node is used: as configured, but with what the configured files hold. */
export type OpenAiCompatibleOptions = ServedNode &
  Omit<Readonly<z.output<typeof openAiCompatibleSchema>>, "kind" | "profile" | "apiKeyFile"> & {
    readonly profile: ModelProfile;
    /** The bearer token that every call is sent with; absent where none is sent. */
    readonly apiKey?: string | undefined;
  };
