import { describe, expect, test } from "vitest";
import { FaultyWire } from "../support/engine/faulty-wire.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf, textOf } from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import type { EngineProcess } from "../support/processes/engine-process.ts";
import { Fleet, healthy, nothingOpen, show, size } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";

/*
 * Answers outlive their engines: three nodes, of which one at a time is lost while clients of all formats read, streamed
 * and not. No answer may fail, and each is that of a node which nobody touched.
 */

const CLIENTS = size(9, 40);
const FAULT_MS = size(6_000, 600_000);
const ANSWERS = { tokensPerSecond: 40, answerTokens: { min: 100, max: 140 }, slots: 64 };
/** Limits by which a node that is stopped, or a connection that brings nonsense, is noticed soon. */
const TIMEOUTS = { acceptTimeoutMs: 1_500, perTryIdleTimeoutMs: 1_500, connectTimeoutMs: 1_000 };

const fleet = new Fleet();

type Place = { readonly node: EngineProcess; readonly wire: FaultyWire };

type Answer = {
  readonly path: AnswerPath;
  readonly prompt: string;
  readonly stream: boolean;
  readonly status: number;
  readonly text: string;
  readonly cut: boolean;
};

async function ask(gateway: GatewayProcess, path: AnswerPath, prompt: string, stream: boolean): Promise<Answer> {
  const usage = path === "/v1/chat/completions" && stream ? { stream_options: { include_usage: true } } : {};
  const response = await gateway.post(path, bodyFor(path, prompt, { stream, temperature: 0, ...usage }));
  const { text, cut } = await readBody(response).toEndOrCut();
  return { path, prompt, stream, status: response.status, text, cut };
}

/** The names of the counts of tokens in the usage of every format; what was cached may differ. */
const COUNTS = /"(?:prompt_tokens|completion_tokens|input_tokens|output_tokens|reasoning_tokens)":(\d+)/g;

/** What a caller has of an answer: its text and its counts of tokens; its failure where it has one. */
function had({ path, stream, status, text, cut }: Answer): object {
  const end = stream ? endOf(path, text, cut) : { end: "complete" };
  if (status !== 200 || end.end !== "complete") return { status, end, text: text.slice(-300) };
  const counts = [...text.matchAll(COUNTS)].map(([count]) => count).slice(-3);
  if (stream) return { text: textOf(path, text), counts };
  const body = JSON.parse(text);
  if (path === "/v1/messages") return { text: body.content[0].text, counts };
  if (path === "/v1/responses") return { text: body.output[0].content[0].text, counts };
  return { text: body.choices[0].message.content, counts };
}

const nothing = () => {};

/** What is done to a node, and taken back after a while. */
const FAULTS: readonly {
  readonly name: string;
  readonly begin: (place: Place) => Promise<void> | void;
  readonly end: (place: Place) => Promise<void> | void;
}[] = [
  { name: "is killed", begin: ({ node }) => node.kill(), end: ({ node }) => node.startAgain() },
  { name: "is stopped", begin: ({ node }) => node.signal("SIGSTOP"), end: ({ node }) => node.signal("SIGCONT") },
  { name: "loses its connection", begin: ({ wire }) => wire.reset(), end: nothing },
  { name: "falls into nonsense", begin: ({ wire }) => wire.garble(), end: nothing },
];

describe("of three nodes one at a time", () => {
  test.each(FAULTS)("$name: no answer fails, and each is what it would have been", async ({ name, begin, end }) => {
    const { gateway, places } = await threeNodes();
    const answers: Answer[] = [];
    let over = false;
    const client = async (index: number) => {
      const path = ANSWER_PATHS[index % 3] ?? "/v1/messages";
      for (let turn = 0; !over; turn += 1)
        answers.push(await ask(gateway, path, `client ${index} turn ${turn}`, index % 9 < 6));
    };
    const clients = Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
    const lastMs = Date.now() + FAULT_MS;
    let faults = 0;
    for (; Date.now() < lastMs || faults < places.length; faults += 1) {
      await passed(1_500);
      const place = places[faults % places.length];
      if (!place) throw new Error("there is no place");
      await begin(place);
      await passed(name === "is stopped" ? 3_000 : 300);
      await end(place);
      await healthy(gateway, place.wire.address);
    }
    over = true;
    await clients;
    const wentOn = await gateway.stat("svc_continuations_total", 'outcome="went_on"');
    const gaps = (await gateway.stat("svc_continuation_gap_seconds_sum")) / Math.max(1, wentOn);
    show(name, { clients: CLIENTS, faults, answers: answers.length, wentOn, meanGapMs: Math.round(gaps * 1_000) });
    expect(wentOn).toBeGreaterThan(0);
    await expectUndisturbed(answers);
    await nothingOpen(
      gateway,
      places.map(({ node }) => node),
    );
    expect(await gateway.stat("svc_answers_kept_bytes")).toBe(0);
  });

  test("H15 all are killed at once: streams wait for the first that comes back", async () => {
    const { gateway, places } = await threeNodes();
    const streams = ANSWER_PATHS.map((path) => ask(gateway, path, `all at once, ${path}`, true));
    await passed(1_500);
    await Promise.all(places.map(({ node }) => node.kill()));
    await passed(1_000);
    await places[1]?.node.startAgain();
    await expectUndisturbed(await Promise.all(streams));
  });
});

async function threeNodes(): Promise<{ readonly gateway: GatewayProcess; readonly places: readonly Place[] }> {
  const places: Place[] = [];
  for (const node of await fleet.engines(3, ANSWERS)) {
    const wire = await FaultyWire.start(node.address);
    fleet.onEnd(() => wire.close());
    places.push({ node, wire });
  }
  const wires = places.map(({ wire }) => wire);
  const gateway = await fleet.inFrontOf(
    wires,
    // All nodes have answers at any time.
    { lbPolicy: "round_robin", outlierDetection: { baseEjectionTimeMs: 1_000 } },
    { timeouts: TIMEOUTS },
  );
  return { gateway, places };
}

/** Fails unless a node that nobody touched gives the same answers, with the same counts of tokens. */
async function expectUndisturbed(answers: readonly Answer[]): Promise<void> {
  const node = await fleet.engine("calm", { ...ANSWERS, tokensPerSecond: 100_000 });
  const gateway = await fleet.inFrontOf([node]);
  for (const answer of answers) {
    const { path, prompt, stream } = answer;
    expect(had(answer), `${path} ${prompt}`).toEqual(had(await ask(gateway, path, prompt, stream)));
  }
}

function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
