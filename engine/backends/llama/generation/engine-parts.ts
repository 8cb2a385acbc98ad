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

/** A request that waits for a slot, as the queue knows it. */
export type Waiting = {
  /** The demand that the request has of a slot. */
  readonly demand: Demand;
  /** The number of tokens of its prompt that were in no cache when it joined. */
  readonly uncachedTokens: number;
};

/** What a generation works with. All of it lives as long as the backend. */
export type EngineParts = {
  /** The name of the node. */
  readonly nodeId: string;
  /** The revision of the model, which tells one checkpoint from another. */
  readonly revision: string;
  /** The loaded model. */
  readonly runtime: LlamaRuntime;
  /** The knowledge about the tokens of the model. */
  readonly vocabulary: Vocabulary;
  /** The profile of the model's family. */
  readonly profile: ModelProfile;
  /** The marks of the profile that the model knows. */
  readonly markers: OutputMarkers;
  /** The tokens of those marks. */
  readonly markTokens: ReadonlySet<Token>;
  /** Tells the text of tokens. */
  readonly texts: TokenTexts;
  /** Turns conversations into tokens. */
  readonly prompts: PromptEncoder;
  /** Counts the pieces of work that callers' bytes have caused and that are over. */
  readonly work: Pick<CallerWork, "moves" | "parseFailed">;
  /** Makes and keeps grammars. */
  readonly grammars: GrammarCache;
  /** Which members an object may have where its schema is silent. */
  readonly undeclared: UndeclaredMembers;
  /** Whether a string or a list in JSON is ended in which the model writes the same over and over. */
  readonly endRepetition: boolean;
  /** Keeps the places of outputs in them. */
  readonly grammarStates: GrammarStates;
  /** The parameters of sampling where a request does not say. */
  readonly samplingDefaults: SamplingDefaults;
  /** The slots of the context. */
  readonly slots: Slots;
  /** The holds on slots of all generations that run. */
  readonly leases: Set<SlotLease>;
  /** The requests that wait for a slot. */
  readonly queue: Queue<Waiting, Slot>;
  /** Counts the steps of the engine. */
  readonly steps: Steps;
  /** Says how prompts are cut into pieces. */
  readonly shares: BatchShares;
  /** Measures queueing, prefill and decoding. */
  readonly clock: Clock;
};
