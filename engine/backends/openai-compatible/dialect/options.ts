import type { ModelProfile } from "../../../profiles/profile.ts";
import type { DialectName } from "./dialect.ts";

/** How an engine beside the node is used; the configuration file gives the defaults. */
export type OpenAiCompatibleOptions = {
  readonly nodeId: string;
  /** The model ids this one checkpoint is served under. */
  readonly models: readonly string[];
  /** The root of the engine's server, without `/v1`. */
  readonly baseUrl: string;
  readonly dialect: DialectName;
  /** The name under which the engine serves the model; absent: its first one. */
  readonly servedModel?: string | undefined;
  readonly profile: ModelProfile;
  /** Generations at once, those that wait in the engine's own queue among them. */
  readonly slots: number;
  /** Sent as a bearer token. */
  readonly apiKey?: string | undefined;
  /** How long to wait for the engine to come up, in milliseconds. */
  readonly startTimeoutMs: number;
  /** How long the engine may say nothing while it owes an answer, its prefill included, in milliseconds. */
  readonly silenceTimeoutMs: number;
  readonly countTimeoutMs: number;
  /** How often the engine is asked for its load, in milliseconds. */
  readonly loadIntervalMs: number;
  readonly images: boolean;
  /** The engine was started with priority scheduling. */
  readonly priorities: boolean;
  /** Where the engine cannot separate tenants: whether they share its prefix cache, or nobody has one. */
  readonly sharedCache: boolean;
};
