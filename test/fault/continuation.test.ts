import { setTimeout as passed } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { DEMO_MODEL, missing } from "../support/engine/demo-engine.ts";
import type { FaultyWire } from "../support/engine/faulty-wire.ts";
import { ANSWER_PATHS, type AnswerPath, endOf, hasDelta } from "../support/http/answer-check.ts";
import { type Comparable, comparable, textsOf } from "../support/http/comparable-answer.ts";
import { readBody } from "../support/http/read-until.ts";
import { metricSum } from "../support/metric-text.ts";
import type { EngineProcess } from "../support/processes/engine-process.ts";
import { Fleet, healthy, nothingOpen, show, size } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";
import { ANSWER_KINDS, type AnswerKind, requestFor } from "../support/requests/kinds-of-answers.ts";

/*
 * Answers outlive their engines: of three nodes one at a time is lost while clients of all formats read, streamed and
 * not, text, reasoning, calls and schemas. No answer may fail, and each equals that of an undisturbed node.
 */

/** Requests of one kind differ, so that not all of them are cached. */
const VARIANTS = size(1, 8);

const WAIT_MS = 600_000;

/** Concurrent requests to an undisturbed node. */
const AT_ONCE = 16;

/** With few cores, more answers would all be prefilled again at each loss, and hardly one would complete. */
const SLOTS = 4;

const fleet = new Fleet();
/** The undisturbed nodes, which all tests share. */
const undisturbed = new Fleet(afterAll);

type Place = { readonly node: EngineProcess; readonly wire: FaultyWire };

const SIMULATED = {
  tokensPerSecond: size(80, 50),
  answerTokens: size(100, 1_000) === 100 ? { min: 100, max: 140 } : { min: 1_000, max: 1_000 },
  slots: 64,
};

/**
 * `streamsOfNine` of nine clients stream; a node that is silent for `silentMs` counts as lost. An undisturbed node for
 * each number of `atOnce` has so many requests at a time, as the last bits of a model's numbers depend on the batch.
 */
const NODES = {
  "of the simulator": {
    start: (name: string, backend = {}) => fleet.engine(name, { ...SIMULATED, ...backend }),
    calm: (name: string) => undisturbed.engine(name, { ...SIMULATED, tokensPerSecond: 100_000 }),
    atOnce: [AT_ONCE],
    clients: size(9, 45),
    streamsOfNine: size(6, 8),
    silentMs: 1_500,
    missing: "",
  },
  "of llama.cpp": {
    start: (name: string) => llama(fleet, name, SLOTS),
    calm: (name: string) => llama(undisturbed, name, AT_ONCE),
    atOnce: [1, AT_ONCE],
    clients: size(4, 45),
    streamsOfNine: size(3, 8),
    silentMs: 3_000,
    missing,
  },
} as const;

function llama(on: Fleet, name: string, slots: number): Promise<EngineProcess> {
  return on.engine(name, { kind: "llama", modelPath: DEMO_MODEL, gpu: false, threads: 1, slots });
}

type NodeKind = keyof typeof NODES;
const NODE_KINDS = Object.keys(NODES) as readonly NodeKind[];

const nothing = () => {};

type Fault = {
  readonly name: string;
  readonly begin: (place: Place) => Promise<void> | void;
  /** Duration, in multiples of the silence limit. */
  readonly lasts: number;
  readonly end: (place: Place) => Promise<void> | void;
  /** Milliseconds for which the fault is repeated; at least two nodes are lost. */
  readonly againMs: number;
  readonly backend?: object;
};

const resume = ({ wire }: Place) => wire.restore();
const restart = ({ node }: Place) => node.startAgain();
const long = size(0, 120_000);

const FAULTS: readonly Fault[] = [
  { name: "J4 is killed", begin: ({ node }) => node.kill(), lasts: 0.2, end: restart, againMs: size(0, 600_000) },
  {
    name: "J3 gets SIGTERM",
    async begin({ node }) {
      const beganMs = Date.now();
      expect(await node.stop()).toBe(0);
      show("a node that got SIGTERM", { goneAfterMs: Date.now() - beganMs });
    },
    ...{ lasts: 0, end: restart, againMs: size(0, 60_000) },
    // Answers of a minute, of which none is awaited.
    backend: { tokensPerSecond: size(20, 16) },
  },
  {
    ...{ name: "is stopped", lasts: 2, againMs: long },
    begin: ({ node }) => node.signal("SIGSTOP"),
    end: ({ node }) => node.signal("SIGCONT"),
  },
  { name: "loses its connection", begin: ({ wire }) => wire.reset(), lasts: 0, end: nothing, againMs: long },
  { name: "is cut off", begin: ({ wire }) => wire.silence(), lasts: 2, end: resume, againMs: long },
  { name: "falls into nonsense", begin: ({ wire }) => wire.garble(), lasts: 0, end: nothing, againMs: long },
];

/** The faults for a small machine: the most different ones. */
const QUICK: Readonly<Record<NodeKind, readonly string[]>> = {
  "of the simulator": ["J3 gets SIGTERM", "falls into nonsense"],
  "of llama.cpp": ["J4 is killed"],
};

const faultsOf = (nodes: NodeKind) => FAULTS.filter(({ name }) => size(0, 1) === 1 || QUICK[nodes].includes(name));

describe.each(NODE_KINDS)("of three nodes %s one at a time", (nodes) => {
  test.skipIf(NODES[nodes].missing !== "").each(faultsOf(nodes))(
    "$name: no answer fails, and each is complete and unchanged",
    async (fault) => {
      const { clients, streamsOfNine, silentMs } = NODES[nodes];
      const { gateway, places } = await threeNodes(nodes, fault.backend);
      const answers = new Answers();
      let over = false;
      // Two equal prompts of one caller on two dead nodes would be suspected of causing the deaths.
      const keys: string[] = [];
      while (keys.length < clients) {
        const some = Array.from({ length: 3 }, () => gateway.createKey("--models", "all", "--name", "client"));
        keys.push(...(await Promise.all(some)));
      }
      const client = async (index: number) => {
        const path = ANSWER_PATHS[index % 3] ?? "/v1/messages";
        for (let turn = 0; !over; turn += 1) {
          const kind = ANSWER_KINDS[(index + turn) % ANSWER_KINDS.length] ?? "text";
          const asked = { path, kind, variant: (index + turn) % VARIANTS, stream: index % 9 < streamsOfNine };
          answers.add(await ask(gateway, asked, keys[index]));
        }
      };
      const [faults] = await Promise.all([
        repeatedly(fault, silentMs, gateway, places).finally(() => {
          over = true;
        }),
        ...Array.from({ length: clients }, (_, index) => client(index)),
      ]);
      show(`${nodes}, one ${fault.name}`, {
        clients,
        faults,
        answers: answers.count,
        ...(await gaps(gateway)),
      });
      expect(await resumed(gateway)).toBeGreaterThan(0);
      await answers.expectUndisturbed(nodes);
      await nothingOpen(
        gateway,
        places.map(({ node }) => node),
      );
      expect(await gateway.stat("svc_answers_kept_bytes")).toBe(0);
    },
    // Comparing takes time, too.
    size(600_000, 1_800_000),
  );
});

/** Kinds of nodes that are killed all at once: the gateway holds the streams, whatever the nodes run. */
const LOST_AT_ONCE = NODE_KINDS.slice(0, size(1, NODE_KINDS.length));

describe.each(LOST_AT_ONCE)("of three nodes %s", (nodes) => {
  test.skipIf(NODES[nodes].missing !== "")(
    "H15 all are killed at once: streams wait for the first that comes back",
    async () => {
      const { gateway, places } = await threeNodes(nodes);
      const answers = new Answers();
      const wanted = ANSWER_PATHS.map(
        (path, variant) => ({ path, kind: "a strict schema", variant, stream: true }) as const,
      );
      const streams: Promise<Answer>[] = [];
      const begun = wanted.map(
        (one) => new Promise<void>((resolve) => streams.push(ask(gateway, one, gateway.key, resolve))),
      );
      await Promise.all(begun);
      await Promise.all(places.map(({ node }) => node.kill()));
      await passed(300);
      await places[1]?.node.startAgain();
      for (const one of await Promise.all(streams)) answers.add(one);
      await answers.expectUndisturbed(nodes);
    },
  );
});

/** Most faults until an answer has continued: sometimes the faulty node runs none. */
const MOST_FAULTS = 6;

function resumed(gateway: GatewayProcess): Promise<number> {
  return gateway.stat("svc_continuations_total", 'outcome="went_on"');
}

async function repeatedly(fault: Fault, silentMs: number, gateway: GatewayProcess, places: readonly Place[]) {
  const lastMs = Date.now() + fault.againMs;
  let faults = 0;
  const isOver = async () =>
    Date.now() >= lastMs && faults >= 2 && (faults >= MOST_FAULTS || (await resumed(gateway)) > 0);
  for (; !(await isOver()); faults += 1) {
    // The previous loss is detected, and its answers are on another node.
    await passed(silentMs + size(500, 2_500));
    const place = places[faults % places.length];
    if (!place) throw new Error("there is no place");
    await fault.begin(place);
    await passed(fault.lasts * silentMs);
    await fault.end(place);
    await healthy(gateway, place.wire.address);
  }
  return faults;
}

async function threeNodes(nodes: NodeKind, backend?: object) {
  const { start, silentMs } = NODES[nodes];
  const places = await fleet.wired(3, (name) => start(name, backend));
  const wires = places.map(({ wire }) => wire);
  const gateway = await fleet.inFrontOf(
    wires,
    {
      // All nodes run answers at any time.
      ...{ lbPolicy: "round_robin", outlierDetection: { baseEjectionTimeMs: 1_000 } },
      // Four times the load of two small nodes: here all requests wait, and none is refused.
      circuitBreakers: { maxPendingRequests: 100 },
    },
    {
      // A stopped node or an invalid connection is detected soon.
      timeouts: {
        perTryIdleTimeoutMs: silentMs,
        // Few cores serve all clients, and two nodes of three at times.
        pendingTimeoutMs: WAIT_MS,
      },
    },
  );
  return { gateway, places };
}

type Asked = {
  readonly path: AnswerPath;
  readonly kind: AnswerKind;
  readonly variant: number;
  readonly stream: boolean;
};
type Answer = { readonly asked: Asked; readonly had: unknown };

async function ask(gateway: GatewayProcess, asked: Asked, key = gateway.key, onBegun?: () => void): Promise<Answer> {
  const { path, kind, variant, stream } = asked;
  const response = await gateway.post(path, requestFor(path, kind, variant, stream), undefined, key).catch(String);
  if (typeof response === "string") return { asked, had: { end: "no answer", error: response } };

  const body = readBody(response);
  if (onBegun) {
    await body.until((text) => hasDelta(path, text));
    onBegun();
  }
  const { text, cut } = await body.toEndOrCut();
  const end = stream && response.status === 200 ? endOf(path, text, cut).end : cut ? "cut" : "complete";
  const whole = response.status === 200 && end === "complete";
  if (whole) return { asked, had: comparable(text, { stream, counts: !SPELT.includes(kind) }) };
  const id = response.headers.get("x-request-id") ?? "";
  await becomes(async () => gateway.logged(id) !== undefined, "the request is logged");
  return { asked, had: { end, text: text.slice(-300), log: gateway.logged(id) } };
}

class Answers {
  readonly #had = new Map<string, Set<string>>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add({ asked, had }: Answer): void {
    this.#count += 1;
    const key = JSON.stringify(asked);
    const known = this.#had.get(key) ?? new Set();
    this.#had.set(key, known.add(JSON.stringify(had)));
  }

  #differing(nodes: NodeKind) {
    return [...this.#had].flatMap(([key, had]) =>
      [...had]
        .filter((one) => !CALM[nodes].get(key)?.includes(one))
        .map((one) => {
          const { end, log } = JSON.parse(one) as { end?: string; log?: { detail?: string } };
          return { key, one, what: log?.detail ?? end ?? OTHER_TEXT };
        }),
    );
  }

  async expectUndisturbed(nodes: NodeKind): Promise<void> {
    const keys = [...this.#had.keys()];
    await askCalm(
      nodes,
      keys.filter((key) => !CALM[nodes].has(key)),
    );
    const otherTexts = this.#differing(nodes).filter(({ what }) => what === OTHER_TEXT);
    // A batch may produce a last bit that two comparisons have not seen.
    await askCalm(
      nodes,
      otherTexts.flatMap(({ key }) => Array.from({ length: 8 }, () => key)),
    );
    const differ = this.#differing(nodes);
    const tally: Record<string, number> = {};
    for (const { key, what } of differ) tally[`${what}: ${key}`] = (tally[`${what}: ${key}`] ?? 0) + 1;
    show("answers that differ", { seldom: otherTexts.length, ...tally });
    for (const { key, one } of differ)
      expect(JSON.parse(one), key).toEqual(JSON.parse(CALM[nodes].get(key)?.[0] ?? ""));
    for (const key of keys) {
      const undisturbed = CALM[nodes].get(key)?.[0] ?? "";
      const asked = JSON.parse(key) as Asked;
      if (!asked.stream || !SPELT.includes(asked.kind) || AT_ITS_LIMIT.test(undisturbed)) continue;
      const texts = textsOf(JSON.parse(undisturbed) as Comparable);
      expect(() => JSON.parse(texts.at(-1) ?? ""), key).not.toThrow();
    }
  }
}

/** Description of a complete answer with another text. */
const OTHER_TEXT = "another text";

/** Answers of undisturbed nodes by request: all faults are compared with the same ones. */
const CALM: Readonly<Record<NodeKind, Map<string, readonly string[]>>> = {
  "of the simulator": new Map(),
  "of llama.cpp": new Map(),
};

const CALM_GATEWAYS: Partial<Record<NodeKind, Promise<readonly (readonly [GatewayProcess, number])[]>>> = {};

async function askCalm(nodes: NodeKind, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const { atOnce, calm } = NODES[nodes];
  CALM_GATEWAYS[nodes] ??= Promise.all(
    atOnce.map(async (count) => [await undisturbed.inFrontOf([await calm(`calm-${count}`)]), count] as const),
  );
  const hadOf = async (gateway: GatewayProcess, key: string) => {
    const { had } = await ask(gateway, JSON.parse(key) as Asked);
    CALM[nodes].set(key, [...(CALM[nodes].get(key) ?? []), JSON.stringify(had)]);
  };
  const askIn = async (gateway: GatewayProcess, count: number) => {
    for (let at = 0; at < keys.length; at += count)
      await Promise.all(keys.slice(at, at + count).map((key) => hadOf(gateway, key)));
  };
  await Promise.all((await CALM_GATEWAYS[nodes]).map(([gateway, count]) => askIn(gateway, count)));
}

/** The finish reason of each format for an answer that reached its limit: the demonstration model may loop. */
const AT_ITS_LIMIT = /\\"(?:length|max_tokens|incomplete)\\"/;

/** Their last block is JSON from a grammar: a model wavers between tokens with the same text, disturbed or not. */
const SPELT: readonly AnswerKind[] = [
  "a strict call full of escapes",
  "a strict schema",
  "reasoning before a strict schema",
];

async function gaps(gateway: GatewayProcess): Promise<object> {
  const stats = await gateway.stats();
  const name = "svc_continuation_gap_seconds";
  const resumed = metricSum(stats, `${name}_count`);
  const within = (seconds: string) => metricSum(stats, `${name}_bucket`, `le="${seconds}"`);
  return {
    outcomes: stats.split("\n").filter((line) => line.startsWith("svc_continuations_total{")),
    resumed,
    meanGapMs: Math.round((metricSum(stats, `${name}_sum`) / resumed) * 1_000),
    gapsWithin: Object.fromEntries(["0.1", "0.5", "1", "2.5", "5", "10"].map((each) => [`${each} s`, within(each)])),
  };
}
