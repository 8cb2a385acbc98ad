import { setTimeout as passed } from "node:timers/promises";
import { expect, test } from "vitest";
import type { FaultyWire } from "../support/engine/faulty-wire.ts";
import {
  ANSWER_PATHS,
  type AnswerPath,
  bodyFor,
  brokenEnd,
  endOf,
  foldedText,
  textOf,
} from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import type { EngineProcess } from "../support/processes/engine-process.ts";
import { detailsOf, Fleet, healthy, nothingOpen, show, size } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";
import { openStreams } from "../support/processes/open-streams.ts";
import { SeededRandom } from "../support/seeded-random.ts";

/*
 * H1 to H5 at random: three nodes are killed, stopped, partitioned, slowed and garbled under load. Invariants: an
 * answer that looks complete is complete, every failure has its format's form, and no resources leak.
 */

const SEED = Number(process.env.CHAOS_SEED ?? 11);
const FAULT_MS = size(10_000, 120_000);
const CLIENTS = size(9, 40);
/** Slightly more than clients, who may return before their disconnect is detected. All places are free in the end. */
const PLACES = CLIENTS + 3;
const ANSWERS = { tokensPerSecond: 50, answerTokens: { min: 10, max: 20 }, slots: 64 };

const fleet = new Fleet();

type Place = { readonly node: EngineProcess; wire: FaultyWire };

type Mischief = {
  readonly name: string;
  readonly begin: (place: Place) => Promise<void> | void;
  readonly end: (place: Place) => Promise<void> | void;
};

const nothing = () => {};

const MISCHIEF: readonly [Mischief, ...Mischief[]] = [
  { name: "kill", begin: ({ node }) => node.kill(), end: ({ node }) => node.startAgain() },
  { name: "stop", begin: ({ node }) => node.signal("SIGSTOP"), end: ({ node }) => node.signal("SIGCONT") },
  { name: "leave", begin: async ({ node }) => void (await node.stop()), end: ({ node }) => node.startAgain() },
  { name: "silence", begin: ({ wire }) => wire.silence(), end: ({ wire }) => wire.restore() },
  { name: "garble", begin: ({ wire }) => wire.garble(), end: nothing },
  { name: "reset", begin: ({ wire }) => wire.reset(), end: nothing },
  { name: "slow", begin: ({ wire }) => wire.slow(), end: ({ wire }) => wire.restore() },
];

type Answer = {
  readonly path: AnswerPath;
  readonly prompt: string;
  readonly stream: boolean;
  readonly status: number;
  readonly text: string;
  readonly broken: boolean;
};

async function ask(
  gateway: GatewayProcess,
  key: string,
  path: AnswerPath,
  prompt: string,
  stream: boolean,
): Promise<Answer> {
  const what = { path, prompt, stream };
  let text = () => "";
  let status = 0;
  try {
    const response = await gateway.post(path, bodyFor(path, prompt, { stream }), undefined, key);
    status = response.status;
    const reader = readBody(response);
    text = reader.text;
    const whole = await reader.toEndOrCut();
    return { ...what, status, text: whole.text, broken: whole.cut };
  } catch {
    return { ...what, status, text: text(), broken: true };
  }
}

function wholeAnswer({ path, stream, status, text, broken }: Answer): string | undefined {
  if (broken || status !== 200) return undefined;
  if (stream) return endOf(path, text).end === "complete" ? textOf(path, text) : undefined;
  return foldedText(path, text);
}

/** Whether a failure has its format's form: a stream that broke correctly, or an envelope with a status of its own. */
function isProperFailure({ path, stream, status, text, broken }: Answer): boolean {
  if (status === 200) return stream && ["error", brokenEnd(path)].includes(endOf(path, text, broken).end);
  if (broken) return false;
  const { error } = JSON.parse(text);
  return status >= 500 && typeof error.message === "string" && typeof error.type === "string";
}

test("H1 to H5 at random, over three nodes: no truncated success, no failure without envelope, no leak", async () => {
  const chance = new SeededRandom(SEED);
  const places: readonly Place[] = await fleet.wired(3, (name) => fleet.engine(name, ANSWERS));
  const gateway = await fleet.inFrontOf(
    places.map(({ wire }) => wire),
    { outlierDetection: { baseEjectionTimeMs: 1_000 } },
    { timeouts: { perTryIdleTimeoutMs: 1_500 } },
  );
  const key = await gateway.createKey("--models", "all", "--name", "chaos", "--concurrency", String(PLACES));
  const answers: Answer[] = [];
  let over = false;
  const client = async (index: number) => {
    const own = new SeededRandom(SEED + index);
    for (let turn = 0; !over; turn += 1) {
      const path = own.pick(ANSWER_PATHS);
      const answer = await ask(gateway, key, path, `client ${index} turn ${turn}`, own.next() < 0.7);
      answers.push(answer);
      // Retries come sooner than the retry delay.
      if (answer.status >= 500) await passed(100 + own.next() * 300);
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
  const done: Record<string, number> = {};
  const makeMischief = async (place: Place, random: SeededRandom) => {
    while (!over) {
      await passed(500 + random.next() * 4_000);
      const { name, begin, end } = random.pick(MISCHIEF);
      done[name] = (done[name] ?? 0) + 1;
      await begin(place);
      await passed(200 + random.next() * 2_500);
      await end(place);
    }
  };
  const mischief = Promise.all(places.map((place) => makeMischief(place, new SeededRandom(chance.below(2 ** 31)))));
  await passed(FAULT_MS);
  over = true;
  await Promise.all([clients, mischief]);

  await nothingOpen(
    gateway,
    places.map(({ node }) => node),
  );
  for (const { wire } of places) await healthy(gateway, wire.address);
  const whole = answers.filter((answer) => wholeAnswer(answer) !== undefined);
  const failures = answers.filter((answer) => wholeAnswer(answer) === undefined);
  show("chaos", {
    ...{ seed: SEED, clients: CLIENTS, done, answers: answers.length, failures: failures.length },
    ...detailsOf(gateway),
  });
  expect(failures.filter((answer) => !isProperFailure(answer))).toEqual([]);
  expect(whole.length).toBeGreaterThan(CLIENTS);
  await expectSame(whole);
  // All places of the key are free again, and no more than those.
  const streams = await openStreams(gateway, PLACES, { key });
  expect(streams.map(({ status }) => status)).toEqual(Array(PLACES).fill(200));
});

async function expectSame(answers: readonly Answer[]): Promise<void> {
  const node = await fleet.engine("calm", { ...ANSWERS, tokensPerSecond: 100_000 });
  const gateway = await fleet.inFrontOf([node]);
  const judge = async (answer: Answer) => {
    const calm = await ask(gateway, gateway.key, answer.path, answer.prompt, answer.stream);
    expect(wholeAnswer(answer), answer.prompt).toBe(wholeAnswer(calm));
  };
  for (let at = 0; at < answers.length; at += 32) await Promise.all(answers.slice(at, at + 32).map(judge));
}
