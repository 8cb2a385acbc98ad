import { expect, test } from "vitest";
import { type AnswerPath, bodyFor, endOf } from "../../support/http/answer-check.ts";
import { outcomeOf } from "../../support/processes/fault-front.ts";
import { Fleet, size } from "../../support/processes/fleet.ts";

/* A node with slow prefill and default timeouts: the first prompts of real agents. */

const fleet = new Fleet();

const TOKENS_PER_SECOND = 200;
/** The bytes of one token, as the simulator counts. */
const TOKEN = "word";

test("prompts with a prefill of half a minute and more are answered completely", async () => {
  const nodes = await fleet.engines(2, { prefillTokensPerSecond: TOKENS_PER_SECOND });
  const gateway = await fleet.inFrontOf(nodes);
  const ask = async (path: AnswerPath, tokens: number) => {
    const answer = await gateway.post(path, bodyFor(path, TOKEN.repeat(tokens), { stream: true }));
    return outcomeOf(gateway, answer);
  };
  const asked: readonly (readonly [AnswerPath, number])[] = [
    ["/v1/messages", size(2_000, 12_000)],
    ["/v1/responses", size(6_200, 22_000)],
  ];
  const seen = await Promise.all(asked.map(([path, tokens]) => ask(path, tokens)));
  for (const [index, [path]] of asked.entries()) {
    const { text, log } = seen[index] ?? { text: "", log: undefined };
    expect(log).toMatchObject({ code: 200, attempts: 1, end_reason: "complete" });
    expect(endOf(path, text)).toEqual({ end: "complete" });
  }
});
