import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import { ask, missing, request, startBackend } from "../support/engine/demo-engine.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { sizeOf } from "../support/size.ts";

const TENANTS = ["a", "b", "c"];
/** Three answers each: the full size compares 114. */
const CONVERSATIONS = sizeOf({ quick: 24, promised: 38 });
/** The time limit of the full size on a busy machine, in milliseconds. */
const TIME_LIMIT_MS = 300_000;
const SLOTS = 4;
const TOKENS = 24;
const QUESTIONS = ["Who are you?", "What can you do for me?", "Tell me about the weather in the north of Italy."];

/** A beginning shared by all conversations, so that a slot of the same tenant is worth its cache to another. */
const SHARED = system("You answer in short and plain sentences. ".repeat(10));

/** A turn of a conversation: its messages, and the answer of an engine with empty caches. */
type Turn = { readonly messages: readonly Message[]; readonly cold: string };

describe.skipIf(missing !== "")("under random load", () => {
  let backend: LlamaBackend;
  const conversations: Turn[][] = [];

  beforeAll(async () => {
    backend = await startBackend({ slots: SLOTS, contextTokens: 512, queueLength: CONVERSATIONS });
    for (let each = 0; each < CONVERSATIONS; each += 1) conversations.push(await coldTurns(each));
  }, TIME_LIMIT_MS);
  afterAll(() => backend.close());

  /** Runs a conversation without cache hits. */
  async function coldTurns(each: number): Promise<Turn[]> {
    const turns: Turn[] = [];
    let messages: readonly Message[] = [SHARED, user(`Count from ${each} to ${each + 5}.`)];
    for (const question of QUESTIONS) {
      const cache = { affinityKey: "", isolationSalt: `cold ${each} ${turns.length}`, ttl: undefined };
      const { text: cold, cached } = await ask(backend, request(messages, { maxOutputTokens: TOKENS, cache }));
      expect([cold === "", cached]).toEqual([false, 0]);
      turns.push({ messages, cold });
      messages = [...messages, assistant(text(cold)), user(question)];
    }
    return turns;
  }

  test(
    "every finished answer equals the uncached one, whatever ran beside it, was cached or cancelled",
    async () => {
      const random = seededRandom(1);
      let finished = 0;
      let cached = 0;
      let left = 0;
      const talk = async (turns: readonly Turn[], each: number) => {
        for (const { messages, cold } of turns) {
          const tenant = TENANTS[each % TENANTS.length] ?? "";
          const wanted = request(messages, { tenant, maxOutputTokens: TOKENS });
          if (random() < 0.2) {
            await leaveAt(backend, wanted, Math.floor(random() * TOKENS));
            left += 1;
          }
          const answer = await ask(backend, wanted);
          expect(answer.text).toBe(cold);
          finished += 1;
          cached += answer.finished.usage?.cachedInputTokens ?? 0;
        }
      };
      await Promise.all(conversations.map(talk));
      expect(finished).toBe(CONVERSATIONS * QUESTIONS.length);
      expect(left).toBeGreaterThan(5);
      // Some of them used the cache.
      expect(cached).toBeGreaterThan(0);
      expect(backend.load()).toMatchObject({ slots: SLOTS, busySlots: 0, waiting: 0 });
    },
    TIME_LIMIT_MS,
  );
});

/** Requests an answer and cancels after its first steps. */
async function leaveAt(backend: LlamaBackend, wanted: ReturnType<typeof request>, steps: number): Promise<void> {
  const leave = new AbortController();
  let seen = 0;
  try {
    for await (const _ of backend.generate(wanted, leave.signal)) {
      seen += 1;
      if (seen > steps) leave.abort();
    }
  } catch (error) {
    expect(error).toMatchObject({ reason: "CANCELLED" });
  }
}
