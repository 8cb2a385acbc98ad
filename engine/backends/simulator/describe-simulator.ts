import {
  Capability,
  EngineKind,
  Modality,
  type ModelDescription,
  ModelState,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { BackendDescription } from "../../backend.ts";
import { BLOCK_TOKENS } from "./prefix-cache.ts";
import type { SimulatorOptions } from "./simulator-options.ts";

const CAPABILITIES: readonly Capability[] = [
  Capability.TOOLS,
  Capability.FORCED_TOOL_CHOICE,
  Capability.JSON_OBJECT,
  Capability.REASONING,
  Capability.REASONING_OFF,
  Capability.REASONING_BUDGET,
  Capability.EXACT_TOKEN_COUNT,
  Capability.CACHE_ISOLATION,
];

/** Returns what stands where the digest of the weights would: nodes with the same one give the same answers. */
export function simulatorRevision({ seed }: Pick<SimulatorOptions, "seed">): string {
  return `simulator-${seed}`;
}

/**
 * Returns what the node says of itself: first of all that there is no model. `stepProcess` is the id of the process
 * that steps; undefined where there is none.
 */
export function describeSimulator(options: SimulatorOptions, stepProcess: number | undefined): BackendDescription {
  const models = options.models.map(
    (id): ModelDescription => ({
      id,
      revision: simulatorRevision(options),
      contextWindow: options.contextTokens,
      maxOutputTokens: options.contextTokens - 1,
      kvTokenCapacity: options.kvTokens,
      kvBlockTokens: BLOCK_TOKENS,
      maxConcurrentRequests: options.slots,
      inputModalities: [Modality.TEXT, Modality.IMAGE],
      capabilities: CAPABILITIES,
      state: ModelState.READY,
      maxCacheTtl: undefined,
    }),
  );
  const engineVersion = stepProcess === undefined ? "1" : `1, steps in process ${stepProcess}`;
  return { engineKind: EngineKind.SIMULATOR, engineVersion, models };
}
