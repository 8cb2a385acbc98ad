import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import {
  Capability,
  Modality,
  type ModelDescription,
  ModelState,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { OutputMarkers } from "../../output-parser/markers.ts";
import type { ModelProfile } from "../../profiles/profile.ts";

/** The number of blocks of the weights that a digest covers, evenly spread, instead of gigabytes at every start. */
const SAMPLED_BLOCKS = 64;
const BLOCK_BYTES = 64 * 1024;

const ALWAYS: readonly Capability[] = [
  Capability.JSON_OBJECT,
  Capability.JSON_SCHEMA,
  Capability.EXACT_TOKEN_COUNT,
  Capability.LOGPROBS,
  Capability.ASSISTANT_PREFILL,
  Capability.CACHE_ISOLATION,
  Capability.PREFIX_EVENTS,
];

const WITH_TOOLS: readonly Capability[] = [
  Capability.TOOLS,
  Capability.PARALLEL_TOOL_CALLS,
  Capability.FORCED_TOOL_CHOICE,
  Capability.STRICT_TOOLS,
];

const WITH_REASONING: readonly Capability[] = [Capability.REASONING, Capability.REASONING_BUDGET];

export type DescribedModel = {
  readonly revision: string;
  readonly contextWindow: number;
  /** The bytes of the longest token, if prompts contain the text of user messages unchanged; else 0. */
  readonly longestTokenBytes: number;
  readonly slots: number;
  readonly template: string;
  readonly profile: Pick<ModelProfile, "thinking">;
  readonly markers: OutputMarkers;
  readonly continues: boolean;
};

export function describeModel(id: string, model: DescribedModel | undefined): ModelDescription {
  const contextWindow = model?.contextWindow ?? 0;
  const slots = model?.slots ?? 0;
  return {
    id,
    revision: model?.revision ?? "",
    contextWindow,
    maxOutputTokens: Math.max(0, contextWindow - 1),
    kvTokenCapacity: contextWindow * slots,
    kvBlockTokens: 1,
    maxConcurrentRequests: slots,
    inputModalities: [Modality.TEXT],
    capabilities: model ? capabilities(model) : [],
    state: model ? ModelState.READY : ModelState.LOADING,
    maxCacheTtl: undefined,
    longestTokenBytes: model?.longestTokenBytes ?? 0,
    keptConversations: slots,
    dataParallelRanks: 0,
    handOverGroup: "",
  };
}

/** Returns the capabilities of the model. It was not trained to reason if its template never mentions a switch. */
function capabilities({ template, profile, markers, continues }: DescribedModel): readonly Capability[] {
  const { thinking } = profile;
  const isAlways = thinking?.default === "always";
  const isSwitched = Object.keys({ ...thinking?.on, ...thinking?.off }).some((name) => template.includes(name));
  const reasoning = markers.reasoning !== undefined && (isAlways || isSwitched);
  const off = reasoning && isAlways ? [] : [Capability.REASONING_OFF];
  return [
    ...ALWAYS,
    ...off,
    ...WITH_TOOLS,
    ...(reasoning ? WITH_REASONING : []),
    ...(continues ? [Capability.CONTINUATION, Capability.PROMPT_DIGEST] : []),
  ];
}

export async function weightsOf(path: string, metadata: unknown): Promise<string> {
  const hash = createHash("sha256");
  const plain = (_key: string, value: unknown) => (typeof value === "bigint" ? value.toString() : value);
  hash.update(JSON.stringify(metadata, plain));
  const file = await open(path);
  try {
    const { size } = await file.stat();
    hash.update(String(size));
    const step = Math.max(BLOCK_BYTES, Math.floor(size / SAMPLED_BLOCKS));
    const block = Buffer.alloc(BLOCK_BYTES);
    for (let position = 0; position < size; position += step) {
      const { bytesRead } = await file.read(block, 0, BLOCK_BYTES, position);
      hash.update(block.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
  return hash.digest("hex");
}
