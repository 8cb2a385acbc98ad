import { beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { LoopSlices } from "../../engine/backends/loop-slices.ts";
import { DIALECTS } from "../../engine/backends/openai-compatible/engines/dialects.ts";
import type { Ask } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { asking, readMarkup } from "../../engine/backends/openai-compatible/generation/generation-parts.ts";
import { EngineHttp } from "../../engine/backends/openai-compatible/http/engine-http.ts";
import { SpelledMarks } from "../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { readModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import { OwnPrompts } from "../../engine/backends/openai-compatible/prompt/own-prompts.ts";
import { RenderingCheck } from "../../engine/backends/openai-compatible/prompt/rendering-check.ts";
import { type RequestSettings, toChatPrompt } from "../../engine/backends/openai-compatible/request/request.ts";
import { ANY_ORDER } from "../../engine/conversation/history/model-history.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { CountTokensRequest, type Event } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { MARKS, PLACES } from "../support/dialects/injections.ts";
import { assistant, text, user } from "../support/engine/canonical.ts";
import { randomConversation } from "../support/engine/random-conversations.ts";
import { workHere } from "../support/engine/work-here.ts";
import { answerOf } from "../support/events/answer-of.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { TOKENIZER_FILE } from "./engines.ts";
import type { Rig } from "./rig.ts";

const never = new AbortController().signal;
const order = { tenant: "t", signal: never };
const HARMLESS = "zebra";
/** Prompts that the node renders, and has tokenized by segments, beside those of the engine. */
export function ownPromptsBeside(rig: Rig): void {
  describe("prompts rendered in the node", () => {
    let ask: Ask;
    let settings: RequestSettings;
    let own: OwnPrompts;

    beforeAll(async () => {
      const dialect = DIALECTS[rig.lane.dialect];
      ask = asking(new EngineHttp(rig.engine.baseUrl, undefined), 60_000, never);
      const listed = JSON.parse(await (await fetch(`${rig.engine.baseUrl}/v1/models`)).text());
      settings = {
        ...{
          dialect,
          servedModel: String(listed.data[0].id),
          profile: loadProfile("hermes-thinking"),
          turns: ANY_ORDER,
        },
        ...{ marks: new SpelledMarks(MARKS), images: false, priorities: false, sharedCache: true, defaults: {} },
      };
      const files = readModelFiles(TOKENIZER_FILE);
      if (!files) throw new Error("the exported model has no template");
      const { markers } = await readMarkup(ask, settings);
      const parts = { files, settings, markers, work: workHere, slices: new LoopSlices(), clock: systemClock };
      own = new OwnPrompts({ ...parts, cacheMegabytes: 64 });
    });

    const prompts = async (messages: readonly Message[], fields: Partial<CountTokensRequest> = {}) => {
      const request = { ...CountTokensRequest.create(), messages, ...fields };
      const mine = await own.render(request, "", ask, order);
      const { tokens } = await settings.dialect.render(ask, toChatPrompt(request, settings));
      return { mine: mine && [...mine.tokens], theirs: [...tokens], startsInReasoning: mine?.startsInReasoning };
    };

    test("pass the check at the start", async () => {
      const check = new RenderingCheck(own, settings, () => 1);
      expect(await check.start(ask, never)).toBeUndefined();
      expect(own.isOn).toBe(true);
    });

    test("are the engine's where its template has one space less, and answers stay", async () => {
      const files = readModelFiles(TOKENIZER_FILE);
      if (!files) throw new Error("the exported model has no template");
      const template = files.template.replace("<|im_start|>", "<|im_start|> ");
      expect(template).not.toBe(files.template);
      const [other, plain] = [await rig.backend(2, "demo", { ...files, template }), await rig.backend(2, "demo")];
      try {
        expect(other.load().ownRendering).toBe(false);
        expect(other.startNotes().join()).toContain("those of the node differ");
        const asked = generateRequest({
          messages: [user("Count from 1 to 9.")],
          sampling: { temperature: 0, stop: [], logitBias: {} },
        });
        const said = async (backend: typeof other) => {
          const events: Event[] = [];
          for await (const { events: some } of backend.generate(asked, never)) events.push(...some);
          return answerOf(events);
        };
        expect((await said(other)).blocks).toEqual((await said(plain)).blocks);
      } finally {
        await other.close();
        await plain.close();
      }
    });

    test("have the engine's tokens, whatever is said", async () => {
      const random = new SeededRandom(5);
      for (let at = 0; at < 500; at += 1) {
        const { messages, ...fields } = randomConversation(random);
        const { mine, theirs } = await prompts(messages, fields);
        expect(mine).toEqual(theirs);
      }
    });

    test("have only their new segments tokenized", async () => {
      const turns = Array.from({ length: 20 }, (_, at) => [
        user(`${at}: ${"More is said. ".repeat(6)}`),
        assistant(text(`${at} it is. `.repeat(6))),
      ]).flat();
      await prompts(turns.slice(0, -1));
      const before = own.tokensMade;
      const { mine = [], theirs } = await prompts([...turns, user("And now?")]);
      expect(mine).toEqual(theirs);
      expect(own.tokensMade - before).toBeLessThan(mine.length / 5);
    });

    test.each(Object.entries(PLACES))("take no control token from a caller in %s", async (_place, withSpelling) => {
      const ids = await Promise.all(MARKS.map((mark) => settings.dialect.tokenize(ask, settings.servedModel, mark)));
      const control = (tokens: readonly number[]) => tokens.filter((token) => ids.some(([id]) => id === token));
      const said = async (spelling: string) => {
        const { messages, tools } = withSpelling(spelling);
        return (await prompts(messages, { tools })).mine ?? [];
      };
      const usual = control(await said(HARMLESS));
      for (const mark of MARKS) expect(control(await said(mark))).toEqual(usual);
    });
  });
}
