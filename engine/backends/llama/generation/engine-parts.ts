import type { Token } from "node-llama-cpp";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import type { GrammarCache } from "../grammar/grammar-cache.ts";
import type { Queue } from "../queue/queue.ts";
import type { LlamaRuntime } from "../runtime/llama-runtime.ts";
import type { BatchShares } from "../slots/batch-shares.ts";
import type { Slot } from "../slots/slot.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { Demand, Slots } from "../slots/slots.ts";
import type { StepCounter } from "../slots/step-counter.ts";
import type { PromptEncoder } from "../tokens/prompt-encoder.ts";
import type { SamplingDefaults } from "../tokens/sampling.ts";
import type { Vocabulary } from "../tokens/vocabulary.ts";

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
  /** The holds on slots of all generations that run. */
  readonly leases: Set<SlotLease>;
  readonly queue: Queue<Waiting, Slot>;
  readonly steps: StepCounter;
  readonly shares: BatchShares;
  readonly clock: Clock;
};
