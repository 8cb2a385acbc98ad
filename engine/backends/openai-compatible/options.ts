import * as z from "zod";
import { file } from "../../../deploy/runtime/config/process-schema.ts";
import type { ServedNode } from "../../backend.ts";
import type { CallerWork } from "../../caller-work/caller-work.ts";
import { tokenCacheSetting } from "../../conversation/segment-cache.ts";
import type { ModelProfile } from "../../profiles/profile.ts";
import { weightsSetting } from "../model-revision.ts";
import type { ModelFiles } from "./prompt/model-files.ts";

export const openAiCompatibleSchema = z.strictObject({
  kind: z
    .literal("openai-compatible")
    .describe("The backend stands beside another engine: vLLM, SGLang or llama-server."),
  dialect: z
    .enum(["vllm", "sglang", "llama-server"])
    .describe("The engine beside the node; each kind is sent what it understands."),
  baseUrl: z
    .url({ protocol: /^https?$/ })
    .describe("The root URL of the engine's server, without /v1. The node has to be the engine's only client."),
  servedModel: z
    .string()
    .min(1)
    .optional()
    .describe("The name under which the engine knows the model; without it, the engine's first model."),
  profile: z
    .string()
    .min(1)
    .describe("The profile of the model's family: a name of engine/profiles, or the path of a file like those."),
  weights: weightsSetting,
  tokenizerFile: file(
    "Path of the model's tokenizer.json, whose control tokens callers cannot write; without it, those that the engine reports, as vLLM does with --enable-tokenizer-info-endpoint. With chat_template.jinja or tokenizer_config.json beside it the node renders prompts itself, once compared with the engine, which then tokenizes new parts only.",
  ).optional(),
  tokenCacheMegabytes: tokenCacheSetting,
  slots: z
    .int()
    .min(1)
    .max(100_000)
    .default(256)
    .describe("Number of generations at once, those among them that wait in the engine's own queue."),
  apiKeyFile: file(
    "Path of a file that holds the engine's key, which is sent as a bearer token; one that other users can read or change is refused (its group may read it).",
  ).optional(),
  stepTimeoutMs: z
    .int()
    .min(0)
    .default(120_000)
    .describe(
      "Milliseconds that one step of the engine may take, as where a first request has it compile: while it reports its load, waiting requests get heartbeats although its counters stand still.",
    ),
  images: z
    .boolean()
    .optional()
    .describe(
      "Whether to try images at the start, and to take them where the engine does; without it, as the profile says of the family.",
    ),
  priorities: z
    .boolean()
    .default(false)
    .describe(
      "Whether the engine was started with priority scheduling (vLLM `--scheduling-policy priority`, SGLang `--enable-priority-scheduling`): only then it gets the priorities of requests.",
    ),
  sharedCache: z
    .boolean()
    .default(false)
    .describe(
      "Whether tenants share the prefix cache of llama-server, which cannot keep them apart; false switches that cache off.",
    ),
});

/** How long the engine may take, and how often it is asked; in milliseconds. */
export type EngineTimes = {
  readonly startTimeoutMs: number;
  /** The time that the engine may say nothing while it owes an answer, a long prefill included; 0 for ever. */
  readonly silenceTimeoutMs: number;
  readonly countTimeoutMs: number;
  readonly loadIntervalMs: number;
};

/** The times of every node: an hour to load weights, ten minutes for a prefill. */
export const ENGINE_TIMES: EngineTimes = {
  startTimeoutMs: 3_600_000,
  silenceTimeoutMs: 600_000,
  countTimeoutMs: 30_000,
  loadIntervalMs: 1_000,
};

/** The settings of an engine beside the node: as configured, but with what the configured files hold. */
export type OpenAiCompatibleOptions = ServedNode &
  EngineTimes &
  Omit<Readonly<z.output<typeof openAiCompatibleSchema>>, "kind" | "profile" | "tokenizerFile" | "apiKeyFile"> & {
    readonly profile: ModelProfile;
    /** The spellings of the model's special tokens; absent: the engine reports them. */
    readonly spellings?: readonly string[] | undefined;
    /** The files by which prompts are rendered in the node; absent: the engine renders them. */
    readonly files?: ModelFiles | undefined;
    readonly apiKey?: string | undefined;
    /** Receives faults of this program in parsing engine output. Default: ignored. */
    readonly onFault?: (thrown: unknown) => void;
    /** The worker threads that check large schemas. The creator of the backend closes them. */
    readonly work: Pick<CallerWork, "run">;
  };
