import * as z from "zod";
import { listenSchema, logSchema } from "../deploy/runtime/config/process-schema.ts";
import { tracingSchema } from "../deploy/runtime/tracing/tracing-schema.ts";

/*
 * The configuration of one engine node: a YAML file, checked strictly. Defaults stand here and nowhere else; names carry
 * their units.
 */

const llama = z.strictObject({
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

const scripted = z.strictObject({
  kind: z.literal("scripted").describe("Plays a script instead of a model, for tests and for trying agents."),
  transcript: z.string().min(1).optional().describe("JSON lines, one canonical event each, played for every request."),
  script: z
    .enum(["sentence", "agent"])
    .default("sentence")
    .describe("Without a transcript: a fixed sentence, or a tool turn and a final turn for coding agents."),
  slots: z.int().min(1).default(64).describe("Generations at once."),
});

const rate = (what: string) => z.number().positive().max(10_000_000).describe(what);

const simulator = z.strictObject({
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

const tls = z
  .strictObject({
    certFile: z.string().min(1).describe("The node's certificate and its chain, PEM."),
    keyFile: z.string().min(1).describe("Its private key, PEM."),
    clientCaFile: z
      .string()
      .min(1)
      .optional()
      .describe("With it, callers must show a certificate that one of these authorities has signed."),
    allowedClientNames: z
      .array(z.string().min(1).max(255))
      .min(1)
      .optional()
      .describe("With it, only certificates with one of these names: common name, or alternative name of DNS or URI."),
  })
  .refine(({ allowedClientNames, clientCaFile }) => allowedClientNames === undefined || clientCaFile !== undefined, {
    path: ["allowedClientNames"],
    error: "needs clientCaFile: without it callers show no certificate",
  });

const openAiCompatible = z.strictObject({
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

/** The schema of an engine node's whole configuration. */
export const engineConfigSchema = z.strictObject({
  nodeId: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/)
    .default("engine")
    .describe("The node's name in logs, traces and answers to DescribeNode."),
  models: z.array(z.string().min(1).max(64)).min(1).describe("The model ids this checkpoint is served under."),
  listen: listenSchema(50_051).describe("gRPC."),
  metrics: listenSchema(9464).describe("Prometheus, over HTTP."),
  reflection: z.boolean().default(false).describe("Whether tools may ask the node for its contract."),
  tls: tls.optional().describe("For the gRPC port; without it the node speaks plain text."),
  tracing: tracingSchema.optional(),
  maxStepAgeMs: z
    .int()
    .min(100)
    .default(30_000)
    .describe("Running work that sees no step of the engine for so long takes the node out of service."),
  drainTimeoutMs: z.int().min(0).default(600_000).describe("How long running generations may go on after SIGTERM."),
  log: logSchema,
  backend: z.discriminatedUnion("kind", [simulator, llama, scripted, openAiCompatible]),
});

export type EngineConfig = z.infer<typeof engineConfigSchema>;
export type OpenAiCompatibleConfig = z.infer<typeof openAiCompatible>;
