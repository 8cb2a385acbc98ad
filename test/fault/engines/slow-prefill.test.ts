import { expect, test } from "vitest";
import { type AnswerPath, bodyFor, endOf } from "../../support/http/answer-check.ts";
import { outcomeOf } from "../../support/processes/fault-front.ts";
import { Fleet, size } from "../../support/processes/fleet.ts";

/* A node with slow prefill: the first prompts of real agents. FULL=1 has the default timeouts. */

const fleet = new Fleet();

const TOKENS_PER_SECOND = 200;
/** The bytes of one token, as the simulator counts. */
const TOKEN = "word";
const TIMEOUTS = size(0, 1) === 1 ? {} : { perTryIdleTimeoutMs: 1_500 };

test("prompts with a prefill much longer than the idle timeout are answered completely", async () => {
  const nodes = await fleet.engines(2, { prefillTokensPerSecond: TOKENS_PER_SECOND });
  const gateway = await fleet.inFrontOf(nodes, {}, { timeouts: TIMEOUTS });
  const ask = async (path: AnswerPath, tokens: number) => {
    const body = bodyFor(path, TOKEN.repeat(tokens), { stream: true });
    const { text, log } = await outcomeOf(gateway, await gateway.post(path, body));
    expect(log).toMatchObject({ code: 200, attempts: 1, end_reason: "complete" });
    expect(endOf(path, text)).toEqual({ end: "complete" });
  };
  await Promise.all([ask("/v1/messages", size(600, 12_000)), ask("/v1/responses", size(1_200, 22_000))]);
});
