import type { Prompt } from "../../../../bench/replay/traffic.ts";

/** Returns a prompt of the replay that ends with the piece `last`, by default of a conversation that goes on. */
export function replayedPrompt(last: number, tokens: number, more: Partial<Prompt> = {}): Prompt {
  return {
    ...{ last, tokens, outputTokens: 1, shape: { boundaries: [], lastTurn: undefined } },
    ...{ affinityKey: "conversation", session: "session", callsTools: true, endsConversation: false },
    nextUses: () => [{ last, afterMs: 1_000 }],
    ...more,
  };
}
