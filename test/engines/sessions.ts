import { describe, expect, test } from "vitest";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import { digestsOf } from "../support/requests/prefix-digests.ts";
import type { Rig } from "./rig.ts";

const TURNS = 3;
/** The part of its former prompt that a later turn finds at least, and the block that an engine computes anew. */
const FOUND = 0.95;
const BLOCK = 33;

/** Conversations of several agents by turns, whose caches the engine has to keep beside each other. */
export function sessionsBeside(rig: Rig): void {
  describe("agents by turns", () => {
    test.each([
      ["three with one system prompt", 3, "one"],
      ["four without", 4, ""],
    ] as const)("%s keep all they had", async (name, agents, shared) => {
      const rules = "You are a terse assistant, and look things up. ".repeat(24);
      const conversations = Array.from({ length: agents }, (_, at): { messages: Message[]; tokens: number } => ({
        messages: [system(`${name}${shared || at} ${rules}`)],
        tokens: 0,
      }));
      for (let turn = 0; turn < TURNS; turn += 1)
        for (const [at, conversation] of conversations.entries()) {
          conversation.messages.push(user(`I am agent ${at}. Count from ${turn} to nine, please.`));
          const { messages } = conversation;
          const asked = { messages, prefixDigests: digestsOf(messages), maxOutputTokens: 40 };
          const { started, blocks, finished } = await rig.ask(asked);
          const cached = finished?.usage?.cachedInputTokens ?? 0;
          if (turn > 0) expect(cached + BLOCK).toBeGreaterThanOrEqual(FOUND * conversation.tokens);
          conversation.tokens = started?.inputTokens ?? 0;
          conversation.messages.push(assistant(text(blocks.map((block) => block.text).join(""))));
        }
    });
  });
}
