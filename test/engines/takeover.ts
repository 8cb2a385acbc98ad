import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend } from "../../engine/backend.ts";
import type { GenerateRequest, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { startBackend } from "../support/engine/demo-engine.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { CUT } from "./answers.ts";
import { MODEL, type Rig, WEIGHTS } from "./rig.ts";

const STEP = 5;

/** Registers the tests of answers that one of a node beside the engine and a llama.cpp node began, and the other ends. */
export function takenOver(rig: Rig): void {
  describe("beside a llama.cpp node of the same weights", () => {
    let nodes: readonly [Backend, Backend];
    beforeAll(async () => {
      nodes = [await rig.backend(4), await startBackend({ models: [MODEL], weights: WEIGHTS })];
    }, 120_000);
    afterAll(() => Promise.all(nodes.map((node) => node.close())));

    test("both announce the same revision", () => {
      const [one, other] = nodes.map((node) => node.describe().models[0]?.revision);
      expect(one).toMatch(/^[0-9a-f]{16}$/);
      expect(other).toBe(one);
    });

    test.each(Object.entries(CUT))("%s goes on at the other", async (_name, fields) => {
      for (const [first, second] of [nodes, [nodes[1], nodes[0]] as const]) {
        const sampling = { temperature: 0, stop: [], logitBias: {} };
        const request = generateRequest({ model: MODEL, sampling, maxOutputTokens: 200, resumable: true, ...fields });
        const whole = await answer(first, request);
        for (let cut = 0; cut <= whole.tokens.length; cut += STEP) {
          const continuation = { modelRevision: whole.revision, tokens: whole.tokens.slice(0, cut), callIds: [] };
          const rest = await answer(second, { ...request, continuation });
          expect(rest).toEqual(whole);
        }
      }
    });
  });
}

async function answer(node: Backend, request: GenerateRequest) {
  const steps: GenerateResponse[] = [];
  for await (const step of node.generate(request, new AbortController().signal)) steps.push(step);
  const { started, blocks, finished } = answerOf(steps.flatMap(({ events }) => events));
  return {
    revision: started?.modelRevision ?? "",
    tokens: steps.flatMap((step) => step.tokens),
    blocks: blocks.map(({ kind, name, text, complete }) => ({ kind, name, text, complete })),
    reason: finished?.reason,
    outputTokens: finished?.usage?.outputTokens,
  };
}
