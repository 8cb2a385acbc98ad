import type { Token } from "node-llama-cpp";
import type { EngineClock } from "../../clock.ts";
import type { OutputMarkers } from "../../output-parser/markers.ts";
import type { ModelProfile } from "../../profile.ts";
import type { GrammarCache } from "./grammar-cache.ts";
import type { LlamaRuntime } from "./llama-runtime.ts";
import type { PromptEncoder } from "./prompt-encoder.ts";
import type { PromptPieces } from "./prompt-pieces.ts";
import type { Queue } from "./queue.ts";
import type { SamplingDefaults } from "./sampling.ts";
import type { Slot } from "./slot.ts";
import type { Demand, Slots } from "./slots.ts";
import type { StepCounter } from "./step-counter.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What the queue knows of a request. */
export type Waiting = {
  readonly demand: Demand;
  /** Of its prompt, in no cache when it joined. */
  readonly uncachedTokens: number;
};

/** What a generation works with. All of it lives as long as the backend. */
export type EngineParts = {
  readonly nodeId: string;
  readonly revision: string;
  readonly runtime: LlamaRuntime;
  readonly vocabulary: Vocabulary;
  readonly profile: ModelProfile;
  /** Those of the profile that the model knows. */
  readonly markers: OutputMarkers;
  readonly markTokens: ReadonlySet<Token>;
  readonly prompts: PromptEncoder;
  readonly grammars: GrammarCache;
  readonly samplingDefaults: SamplingDefaults;
  readonly slots: Slots;
  readonly queue: Queue<Waiting, Slot>;
  readonly steps: StepCounter;
  readonly pieces: PromptPieces;
  readonly clock: EngineClock;
};
