import type { Token } from "node-llama-cpp";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { CallerWork } from "../../../caller-work/caller-work.ts";
import type { UndeclaredMembers } from "../../../grammar/schema/schema-facets.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import type { GrammarCache } from "../grammar/grammar-cache.ts";
import type { GrammarStates } from "../grammar/grammar-states.ts";
import type { Queue } from "../queue/queue.ts";
import type { LlamaRuntime } from "../runtime/llama-runtime.ts";
import type { BatchShares } from "../slots/batch-shares.ts";
import type { Slot } from "../slots/slot.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { Demand, Slots } from "../slots/slots.ts";
import type { Steps } from "../slots/steps.ts";
import type { PromptEncoder } from "../tokens/prompt-encoder.ts";
import type { SamplingDefaults } from "../tokens/sampling.ts";
import type { TokenTexts } from "../tokens/token-texts.ts";
import type { Vocabulary } from "../tokens/vocabulary.ts";

export type Waiting = {
  readonly demand: Demand;
  readonly uncachedTokens: number;
};

export type EngineParts = {
  readonly nodeId: string;
  readonly revision: string;
  readonly runtime: LlamaRuntime;
  readonly vocabulary: Vocabulary;
  readonly profile: ModelProfile;
  readonly markers: OutputMarkers;
  readonly markTokens: ReadonlySet<Token>;
  readonly texts: TokenTexts;
  readonly prompts: PromptEncoder;
  readonly work: Pick<CallerWork, "moves" | "parseFailed">;
  readonly grammars: GrammarCache;
  readonly undeclared: UndeclaredMembers;
  readonly endRepetition: boolean;
  readonly grammarStates: GrammarStates;
  readonly samplingDefaults: SamplingDefaults;
  readonly slots: Slots;
  readonly leases: Set<SlotLease>;
  readonly queue: Queue<Waiting, Slot>;
  readonly steps: Steps;
  readonly shares: BatchShares;
  readonly clock: Clock;
};
