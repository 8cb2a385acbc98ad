import type { LbPolicy } from "../../../gateway/upstream/load-balancing/policies.ts";
import { AgentSession, type AgentTraffic } from "./agent-session.ts";
import { EventQueue } from "./event-queue.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { exponential, seededRandom } from "./seeded-random.ts";
import { SimulatedGateway } from "./simulated-gateway.ts";
import { NODE_SPEED, SimulatedNode } from "./simulated-node.ts";

/** What is simulated: a policy, its traffic, and the machines. */
export type Scenario = {
  /**
   * The policy that is simulated; with `oracle` all nodes share one cache as large as theirs together, and the one with
   * the least work is picked.
   */
  readonly policy: LbPolicy | "oracle";
  readonly traffic: AgentTraffic;
  readonly nodes: number;
  /** Gateways that share nothing; every request comes in at any of them. */
  readonly gateways: number;
  readonly cacheTokensPerNode: number;
  readonly warmUpMs: number;
  /** The end, warm-up included. */
  readonly untilMs: number;
  readonly seed: number;
};

/** What a simulation measured after its warm-up. */
export type SimulationResult = {
  /** The number of requests that got their first token after the warm-up. */
  readonly requests: number;
  /** Share of all prompt tokens that came out of a cache. */
  readonly hitRatio: number;
  readonly meanTtftMs: number;
  readonly p95TtftMs: number;
  /** The highest of the nodes' mean numbers of requests, by the mean of all nodes. */
  readonly maxLoad: number;
};

const REPORT_INTERVAL_MS = 1_000;

/** Replays agent sessions in virtual time: each waits for its answer before it goes on. */
export function simulate(scenario: Scenario): SimulationResult {
  const { traffic, untilMs, warmUpMs, seed } = scenario;
  const time = new EventQueue();
  // Each with random of its own: sessions are the same under every policy.
  const arrivals = seededRandom(seed);
  const decoding = seededRandom(seed + 1_000);
  const fleet = new Fleet(scenario, time, decoding, seededRandom(seed + 2_000));
  const ttfts: number[] = [];
  let promptTokens = 0;
  let cachedTokens = 0;

  const runTurn = (session: AgentSession, random: () => number) => {
    const startMs = time.nowMs();
    fleet.send(session, {
      onFirstToken(cached) {
        if (time.nowMs() < warmUpMs) return;
        ttfts.push(time.nowMs() - startMs);
        promptTokens += session.promptTokens;
        cachedTokens += cached;
      },
      onFinished() {
        if (session.nextTurn()) {
          time.after(exponential(traffic.meanThinkMs, random), () => runTurn(session, random));
        }
      },
    });
  };
  let started = 0;
  const arrive = () => {
    started += 1;
    const random = seededRandom(seed * 1_000_003 + started);
    runTurn(new AgentSession(started, traffic, random), random);
    time.after(exponential(1_000 / traffic.sessionsPerSecond, arrivals), arrive);
  };
  arrive();

  time.runUntil(warmUpMs);
  const before = fleet.loads();
  time.runUntil(untilMs);
  const loads = fleet.loads().map((load, index) => load - (before[index] ?? 0));
  ttfts.sort((a, b) => a - b);
  return {
    requests: ttfts.length,
    hitRatio: cachedTokens / promptTokens,
    meanTtftMs: mean(ttfts),
    p95TtftMs: ttfts[Math.floor(ttfts.length * 0.95)] ?? 0,
    maxLoad: Math.max(...loads) / mean(loads),
  };
}

type TurnEvents = { onFirstToken(cachedTokens: number): void; onFinished(): void };

/** All nodes, and the gateways in front of them. */
class Fleet {
  readonly #time: EventQueue;
  readonly #random: () => number;
  readonly #nodes: ReadonlyMap<string, SimulatedNode>;
  readonly #gateways: readonly SimulatedGateway[];

  constructor(scenario: Scenario, time: EventQueue, decoding: () => number, random: () => number) {
    const { nodes, cacheTokensPerNode, policy } = scenario;
    this.#time = time;
    this.#random = random;
    const addresses = Array.from({ length: nodes }, (_, index) => `10.0.0.${index + 1}:50051`);
    const shared = policy === "oracle" ? new PrefixCache(cacheTokensPerNode * nodes) : undefined;
    this.#nodes = new Map(
      addresses.map((address) => {
        const cache = shared ?? new PrefixCache(cacheTokensPerNode);
        return [address, new SimulatedNode(address, time, cache, NODE_SPEED, decoding)];
      }),
    );
    this.#gateways =
      policy === "oracle"
        ? []
        : Array.from({ length: scenario.gateways }, () => new SimulatedGateway(policy, addresses, time, random));
    this.#report();
  }

  send(session: AgentSession, turn: TurnEvents): void {
    const gateway = this.#gateways[Math.floor(this.#random() * this.#gateways.length)];
    const dispatched = gateway?.dispatch(session);
    const node = dispatched ? this.#nodes.get(dispatched.address) : this.#leastBusy();
    let cached = 0;
    node?.submit({
      prompt: [...session.prompt],
      onStarted: (cachedTokens) => {
        cached = cachedTokens;
        dispatched?.started(cachedTokens);
      },
      onFirstToken: () => {
        dispatched?.firstToken();
        turn.onFirstToken(cached);
      },
      onFinished: (prefillMs) => {
        dispatched?.finished(prefillMs);
        const answered = session.answered();
        turn.onFinished();
        return answered;
      },
    });
  }

  /** Returns the time integral of the requests of each node. */
  loads(): readonly number[] {
    return [...this.#nodes.values()].map(({ load }) => load.requestMs);
  }

  #leastBusy(): SimulatedNode | undefined {
    const score = ({ report }: SimulatedNode) => report.queuedUncachedTokens + report.running;
    return [...this.#nodes.values()].reduce((best, node) => (score(node) < score(best) ? node : best));
  }

  #report(): void {
    const reports = new Map([...this.#nodes].map(([address, node]) => [address, node.report]));
    for (const gateway of this.#gateways) gateway.reported(reports);
    this.#time.after(REPORT_INTERVAL_MS, () => this.#report());
  }
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);
}
