import { existsSync } from "node:fs";
import * as z from "zod";
import { windowLeft } from "../../engine/backends/request-plan.ts";
import { engineConfigSchema } from "../../engine/config.ts";
import { runNode } from "../../engine/run-node.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { countTokens, renderPrompt } from "../support/engine/simulator/render-prompt.ts";
import { SIMULATOR_DEFAULTS, SimulatorBackend } from "../support/engine/simulator/simulator-backend.ts";
import { taskAnswer } from "./task.ts";

/* The program of an engine node that plays the task of the lane, with the cache and the window of an engine. */

const schema = z.strictObject({
  ...engineConfigSchema.shape,
  backend: z.strictObject({
    kind: z.literal("agents"),
    contextTokens: z.int(),
    steps: z.int(),
    tokens: z.int(),
    tokensPerSecond: z.int(),
    /** Tokens of answers beyond the window, which ends prompts. */
    spareTokens: z.int(),
    /** The node does not start while there is a file at this path: the outage of a node that the supervisor restarts. */
    outage: z.string(),
  }),
});

await runNode(async () => ({
  schema,
  async createBackend({ outage, steps, tokens, contextTokens, spareTokens, tokensPerSecond }, node) {
    while (existsSync(outage)) await new Promise((resolve) => setTimeout(resolve, 100));
    const pace = { tokensPerSecond, prefillTokensPerSecond: 1_000_000, timeToFirstTokenMs: 5 };
    const answer = (request: GenerateRequest) => {
      windowLeft(countTokens(renderPrompt(request.tools, request.messages).text), contextTokens);
      return taskAnswer(request, { steps, tokens });
    };
    const window = contextTokens + spareTokens;
    return new SimulatorBackend({ ...SIMULATOR_DEFAULTS, ...pace, contextTokens: window, answer, ...node });
  },
}));
