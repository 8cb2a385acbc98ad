import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf } from "../../support/http/answer-check.ts";
import { Fleet, nothingOpen, show, size } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

/*
 * An outage of all nodes of a model for a minute (FULL=1; else until all agents have asked), with agents as patient as
 * real ones.
 */

const fleet = new Fleet();

const AGENTS = 100;
/** The agents that stream. */
const STREAMED = 75;
const OUTAGE_MS = size(0, 60_000);
/** Attempts of the least patient agents. */
const TRIES = 6;
/** Milliseconds within which all agents send their first request. */
const ARRIVAL_MS = size(1_500, 5_000);

type Turn = { readonly path: AnswerPath; readonly tries: number; readonly status: number; readonly whole: boolean };

/** Retries after the retry delay, up to a number of attempts, and also after an error in a stream. */
async function turnOf(gateway: GatewayProcess, path: AnswerPath, text: string, stream: boolean): Promise<Turn> {
  for (let tries = 1; ; tries += 1) {
    const answer = await gateway.post(path, bodyFor(path, text, { stream }));
    const body = await answer.text();
    const whole = answer.status === 200 && (!stream || endOf(path, body).end === "complete");
    if (whole || tries === TRIES) return { path, tries, status: answer.status, whole };
    await sleep(Number(answer.headers.get("retry-after-ms") ?? 1_000));
  }
}

test("100 agents in a long outage of their model: no turn is lost, and none is served twice", async () => {
  const node = await fleet.engine("only");
  const gateway = await fleet.inFrontOf([node], {});
  await node.kill();
  const chance = new SeededRandom(11);
  const turns = Promise.all(
    Array.from({ length: AGENTS }, async (_, index) => {
      const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
      await sleep(chance.next() * ARRIVAL_MS);
      return turnOf(gateway, path, `agent ${index}`, index % 4 > 0);
    }),
  );
  // Those in one piece as well, for less than a minute; then they return after their retry delay.
  await becomes(async () => (await gateway.stat("svc_cluster_upstream_rq_held")) === AGENTS, "all are held");
  await sleep(OUTAGE_MS);
  await node.startAgain();
  const seen = await turns;
  await nothingOpen(gateway, [node]);
  await becomes(async () => (await gateway.stat("svc_cluster_upstream_rq_held")) === 0, "no request is held");
  const tries: Record<string, number> = {};
  for (const turn of seen) tries[turn.tries] = (tries[turn.tries] ?? 0) + 1;
  show("outage", { agents: AGENTS, outageMs: OUTAGE_MS, tries });
  expect(seen.filter(({ whole }) => !whole)).toEqual([]);
  expect(await node.metric("svc_engine_generations_total")).toBe(AGENTS);
  expect(seen.filter((turn) => turn.tries === 1).length).toBeGreaterThanOrEqual(STREAMED);
});
