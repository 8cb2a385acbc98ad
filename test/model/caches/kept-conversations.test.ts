import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../../engine/backends/llama/llama-backend.ts";
import { promptShape } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { KeptConversations } from "../../../gateway/upstream/prefixes/kept-conversations.ts";
import type { Message } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../../support/engine/canonical.ts";
import { ask, missing, request, startBackend } from "../../support/engine/demo-engine.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/* A gateway's model of the conversations that a llama.cpp node keeps equals the node's own. */

const TURNS = 80;
/**
 * System prompts that are most of any prompt, and a short one. For about half of a prompt a gateway, which counts
 * bytes, cannot decide.
 */
const HEADS = ["An agent that counts. ".repeat(80), "An agent that reads. ".repeat(80), "Short."].map(system);
/** The error of a gateway, which counts bytes and not tokens. */
const TOLERATED = { tokens: 64, share: 0.01 };

describe.skipIf(missing !== "")("a gateway predicts the kept conversations of a node", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: 3, contextTokens: 4_096 });
  });
  afterAll(() => backend.close());

  test("from its own requests, under random shared prefixes and evictions", async () => {
    const random = new SeededRandom(11);
    const [described] = backend.describe().models;
    const most = described?.keptConversations ?? 0;
    expect(most).toBe(3);
    const keeper = { address: "node", most, life: 1, goneBeforeMs: 0 };
    const kept = new KeptConversations();
    const conversations: Message[][] = [];
    const wrong: string[] = [];
    let reused = 0;
    for (let turn = 0; turn < TURNS; turn += 1) {
      // Five conversations at a time; the newest is restarted now and then.
      const at = random.below(5);
      const known = conversations[at];
      const isOver = !known || known.length > 9 || random.below(6) === 0;
      const head = HEADS[random.below(HEADS.length)] as Message;
      const messages = isOver ? [head] : known;
      messages.push(user(`${turn} ${"What comes next? ".repeat(4 + random.below(5))}`));
      conversations[at] = messages;

      const asked = request(messages, { maxOutputTokens: 1 + random.below(24) });
      const follows = kept.begin({ shape: promptShape(asked, new Uint8Array(32)), cacheKey: "" }, keeper);
      const { cached, finished, text: said } = await ask(backend, asked);
      const { inputTokens = 0, outputTokens = 0 } = finished.usage ?? {};
      const off = Math.abs(cached - follows.expectedTokens);
      if (off > TOLERATED.tokens + TOLERATED.share * inputTokens)
        wrong.push(`turn ${turn}: ${cached} of ${inputTokens} were cached, ${follows.expectedTokens} expected`);
      if (cached > 0) reused += 1;
      follows.read(inputTokens);
      follows.answered(outputTokens);
      follows.ended(turn);
      messages.push(assistant(text(said)));
    }
    expect(wrong).toEqual([]);
    expect(reused).toBeGreaterThan(TURNS / 4);
    expect(reused).toBeLessThan(TURNS);
  });
});
