import * as z from "zod";
import type { GenerateRequest, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  Capability,
  EngineKind,
  Modality,
  type ModelDescription,
  ModelState,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Backend, BackendKind, ServedNode } from "../../backend.ts";
import { EngineError } from "../../errors.ts";
import { stepOf } from "../stream-events.ts";
import { agentTurn, promptTokens } from "./agent-script.ts";

const schema = z.strictObject({
  kind: z
    .literal("scripted")
    .describe("The backend plays a tool turn and a final turn instead of a model, to try coding agents."),
});

/** The backend kind that plays a script in place of a model: `kind: scripted` in the configuration. */
export const scripted: BackendKind<typeof schema> = { schema, create: (_config, node) => new ScriptedAgent(node) };

const SLOTS = 64;
const CONTEXT_TOKENS = 262_144;

/** A script has no tokens to continue from and no cache. */
const NOT_OFFERED: readonly Capability[] = [
  ...[Capability.UNSPECIFIED, Capability.CONTINUATION, Capability.PROMPT_DIGEST],
  ...[Capability.PREFIX_EVENTS, Capability.PROMPT_BASE],
];
const CAPABILITIES = Object.values(Capability).filter((value) => !NOT_OFFERED.includes(value));

class ScriptedAgent implements Backend {
  readonly #models: readonly ModelDescription[];
  #busy = 0;

  constructor({ models }: ServedNode) {
    this.#models = models.map((id) => ({
      id,
      revision: "scripted",
      contextWindow: CONTEXT_TOKENS,
      maxOutputTokens: CONTEXT_TOKENS,
      kvTokenCapacity: CONTEXT_TOKENS * SLOTS,
      kvBlockTokens: 1,
      maxConcurrentRequests: SLOTS,
      inputModalities: [Modality.TEXT],
      capabilities: CAPABILITIES,
      state: ModelState.READY,
      maxCacheTtl: undefined,
      longestTokenBytes: 0,
      keptConversations: 0,
      dataParallelRanks: 0,
      handOverGroup: "",
    }));
  }

  async start(): Promise<void> {}
  async close(): Promise<void> {}

  describe() {
    return { engineKind: EngineKind.SCRIPTED, engineVersion: "1", models: this.#models };
  }

  load() {
    return { slots: SLOTS, busySlots: this.#busy, waiting: 0 };
  }

  async *generate(request: GenerateRequest): AsyncGenerator<GenerateResponse, void, void> {
    if (this.#busy >= SLOTS) throw new EngineError("QUEUE_FULL", "All slots are taken.");
    this.#busy += 1;
    try {
      for (const event of agentTurn(request)) yield stepOf([event]);
    } finally {
      this.#busy -= 1;
    }
  }

  async countTokens(request: Parameters<Backend["countTokens"]>[0]): Promise<number> {
    return promptTokens(request.messages);
  }
}
