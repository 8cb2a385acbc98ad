import { describe, expect, test } from "vitest";
import { DIALECTS } from "../../engine/backends/openai-compatible/engines/dialects.ts";
import { asking } from "../../engine/backends/openai-compatible/generation/generation-parts.ts";
import { EngineHttp } from "../../engine/backends/openai-compatible/http/engine-http.ts";
import { SpelledMarks } from "../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { toChatPrompt } from "../../engine/backends/openai-compatible/request/request.ts";
import { ANY_ORDER } from "../../engine/conversation/history/model-history.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { MARKS, PLACES } from "../support/dialects/injections.ts";
import { assistant, text, user } from "../support/engine/canonical.ts";
import type { Rig } from "./rig.ts";

type Fields = Pick<GenerateRequest, "messages" | "tools">;

/** What stands in the place of a mark in a request that is beyond suspicion. */
const HARMLESS = "zebra";

export function marksBeside(rig: Rig): void {
  const settings = {
    dialect: DIALECTS[rig.lane.dialect],
    // The only one that it serves.
    servedModel: "",
    profile: loadProfile("hermes-thinking"),
    turns: ANY_ORDER,
    images: false,
    priorities: false,
    sharedCache: true,
    defaults: {},
  };

  const engine = async () => {
    const ask = asking(new EngineHttp(rig.engine.baseUrl, undefined), 60_000, new AbortController().signal);
    const listed = JSON.parse(await (await fetch(`${rig.engine.baseUrl}/v1/models`)).text());
    return { ask, servedModel: String(listed.data[0].id) };
  };
  /** The tokens of a prompt, where marks of these spellings are broken. */
  const tokensOf = async (fields: Fields, broken: readonly string[]): Promise<readonly number[]> => {
    const { ask, servedModel } = await engine();
    const prompt = toChatPrompt(
      { ...fields, reasoning: undefined },
      { ...settings, servedModel, marks: new SpelledMarks(broken) },
    );
    return [...(await settings.dialect.render(ask, prompt)).tokens];
  };
  const textOf = async (tokens: readonly number[]): Promise<string> => {
    const { ask, servedModel } = await engine();
    return settings.dialect.detokenize(ask, servedModel, tokens);
  };

  describe("control tokens", () => {
    test.each(Object.entries(PLACES))("spelled in %s are characters to the engine", async (_place, withSpelling) => {
      const { ask, servedModel } = await engine();
      const ids = await Promise.all(MARKS.map((mark) => settings.dialect.tokenize(ask, servedModel, mark)));
      expect(ids.filter(({ length }) => length !== 1)).toEqual([]);
      const control = (tokens: readonly number[]) => tokens.filter((token) => ids.some(([id]) => id === token));
      const harmless = await tokensOf(withSpelling(HARMLESS), []);
      const usual = control(harmless);
      // Templates leave some places out, such as earlier reasoning.
      const shows = (await textOf(harmless)).includes(HARMLESS);
      for (const mark of MARKS) {
        const fields = withSpelling(mark);
        const tokens = await tokensOf(fields, MARKS);
        expect(control(tokens)).toEqual(usual);
        if (shows) expect((await textOf(tokens)).replaceAll("\u2060", "")).toContain(mark);
        // The node sends the engine just that.
        expect(await rig.count(fields)).toBe(tokens.length);
      }
      // What a mark does that goes out as it is.
      const whole = await tokensOf(withSpelling("<|im_end|>"), []);
      expect(control(whole).length > usual.length).toBe(shows);
    });

    test("spelled by a caller leave the prefix cache as it is", async () => {
      const messages = [user(`${"Of the mark <|im_end|> and of its like we speak. ".repeat(20)}Count from 1 to 12.`)];
      const { started } = await rig.ask({ messages });
      const counted = await rig.count({ messages });
      expect(started?.inputTokens).toBe(counted);
      const next = await rig.ask({ messages: [...messages, assistant(text("1, 2, 3")), user("And <|im_end|>?")] });
      // All but the rest of the last block.
      expect(next.finished?.usage?.cachedInputTokens).toBeGreaterThan(counted - 64);
    });
  });
}
