import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { LoopSlices } from "../../engine/backends/loop-slices.ts";
import type { Ask } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { VLLM } from "../../engine/backends/openai-compatible/engines/vllm.ts";
import { asking } from "../../engine/backends/openai-compatible/generation/generation-parts.ts";
import { EngineHttp } from "../../engine/backends/openai-compatible/http/engine-http.ts";
import { SpelledMarks } from "../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { readModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import { OwnPrompts } from "../../engine/backends/openai-compatible/prompt/own-prompts.ts";
import { RenderingCheck } from "../../engine/backends/openai-compatible/prompt/rendering-check.ts";
import { type RequestSettings, toChatPrompt } from "../../engine/backends/openai-compatible/request/request.ts";
import { ANY_ORDER } from "../../engine/conversation/history/model-history.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import {
  CountTokensRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { workHere } from "../support/engine/work-here.ts";
import { RealEngine } from "../support/processes/real-engine.ts";
import { recordedRequests } from "../support/requests/recorded-requests.ts";
import { generatedConversation } from "../support/templates/generated-conversations.ts";
import { ENGINES, rendererCommand, TOKENIZER_FILE } from "./engines.ts";

/*
 * Prompts that the node's code writes, beside the encoders that vLLM ships: its own server for rendering, with the
 * demonstration vocabulary.
 */

/** The modes of vLLM's tokenizer, by the profile. Kimi-K3's encoder comes with the checkpoint, not with vLLM. */
const FAMILIES = [
  ["deepseek-v3.2", "deepseek_v32"],
  ["deepseek-v4", "deepseek_v4"],
  ["deepseek-v4.1", "deepseek_v41"],
] as const;
const never = new AbortController().signal;
const order = { tenant: "t", signal: never };

const DISABLED = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
const REASONINGS = [
  DISABLED,
  ...[ReasoningEffort.UNSPECIFIED, ReasoningEffort.LOW, ReasoningEffort.MEDIUM, ReasoningEffort.HIGH].map((effort) => ({
    ...{ mode: ReasoningMode.ENABLED, effort },
  })),
];
const GENERATED = Array.from({ length: 60 }, (_, seed) => ({
  name: `generated ${seed}`,
  request: generatedConversation(seed),
}));

describe.skipIf(!ENGINES.some(({ dialect, installed }) => dialect === "vllm" && installed))("vLLM's encoders", () => {
  describe.each(FAMILIES)("of %s", (name, mode) => {
    let engine: RealEngine;
    let ask: Ask;
    let settings: RequestSettings;
    let own: OwnPrompts;

    beforeAll(async () => {
      engine = await RealEngine.start(rendererCommand(mode));
      ask = asking(new EngineHttp(engine.baseUrl, undefined), 60_000, never);
      const listed = JSON.parse(await (await fetch(`${engine.baseUrl}/v1/models`)).text());
      const profile = loadProfile(name);
      settings = {
        ...{ dialect: VLLM, servedModel: String(listed.data[0].id), profile, turns: ANY_ORDER },
        ...{ marks: new SpelledMarks([]), images: false, priorities: false, sharedCache: true, defaults: {} },
      };
      const files = readModelFiles(TOKENIZER_FILE);
      if (!files) throw new Error("the exported model has no tokens");
      const { reasoning, toolCall } = profile;
      const parts = { files, settings, markers: { reasoning, toolCall }, work: workHere, slices: new LoopSlices() };
      own = new OwnPrompts({ ...parts, clock: systemClock, cacheMegabytes: 64 });
    });
    afterAll(() => engine?.stop());

    test("renderers write what the node writes of the trials at the start", async () => {
      expect(await new RenderingCheck(own, settings, () => 1).start(ask, never)).toBeUndefined();
    });

    test.each(REASONINGS)(
      "renderers write what the node writes of agents and generated conversations, %j",
      async (reasoning) => {
        const textOf = (tokens: Uint32Array) => VLLM.detokenize(ask, settings.servedModel, [...tokens]);
        for (const { name: one, request: said } of [...recordedRequests(), ...GENERATED]) {
          const request = { ...CountTokensRequest.create(), messages: said.messages, tools: said.tools, reasoning };
          const mine = await own.render(request, "", ask, order);
          const { tokens } = await VLLM.render(ask, toChatPrompt(request, settings));
          if (mine && Buffer.from(mine.tokens.buffer).equals(Buffer.from(tokens.buffer))) continue;
          expect([one, mine && (await textOf(mine.tokens))]).toEqual([one, await textOf(tokens)]);
          expect([one, mine?.tokens]).toEqual([one, tokens]);
        }
      },
    );
  });
});
