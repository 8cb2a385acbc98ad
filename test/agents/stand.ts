import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agent } from "../../deploy/local/launch/agents.ts";
import { metricSum } from "../support/metric-text.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { type Service, startService } from "../support/processes/start-service.ts";
import { Forwarder } from "../support/redis/forwarder.ts";
import type { AgentRun, Installed, SettingsKind } from "./installed.ts";
import { GENERATIONS, type Spoil, Spoiler } from "./spoiler.ts";
import { contentOf, fileOf, type Script } from "./task.ts";

/** A line of the access log. */
export type Logged = {
  readonly msg: string;
  readonly code: number;
  readonly route: string;
  readonly method: string;
  readonly detail?: string;
  readonly prompt_tokens?: number;
  readonly cached_tokens?: number;
  readonly continuations?: number;
  readonly endpoint?: string;
  readonly transport?: "websocket";
  readonly socket_end?: string;
};

export type StandSettings = {
  readonly args?: readonly string[];
  /** Files of the task. */
  readonly steps?: number;
  /** Tokens of each file. */
  readonly tokens?: number;
  readonly contextTokens?: number;
  readonly tokensPerSecond?: number;
  /** Tokens that answers have beyond the window, so that a full one refuses prompts and cuts no call. */
  readonly spareTokens?: number;
};

export type Given = {
  readonly settings?: SettingsKind;
  readonly model?: string;
  /** The window that the agent is set to. Default: that of the model. */
  readonly contextTokens?: number;
  readonly spoil?: Spoil;
  /** `since`: lines of the log before the run. */
  readonly disturb?: (at: Stand, since: number) => Promise<unknown>;
};

/** `log`: the requests of generation and their like; `wrong`: files that are missing or differ. */
export type Seen = AgentRun & { readonly log: readonly Logged[]; readonly wrong: readonly string[] };

/** `npm start` with two engines that play the task. */
export class Stand {
  readonly service: Service;
  /** No engine starts while there is a file at this path. */
  readonly outage: string;
  readonly #script: Script;
  readonly #contextTokens: number;
  readonly #folder: string;
  readonly #wire: Forwarder;

  private constructor(service: Service, wire: Forwarder, folder: string, settings: Required<StandSettings>) {
    this.service = service;
    this.#wire = wire;
    this.#folder = folder;
    this.outage = join(folder, "outage");
    this.#script = settings;
    this.#contextTokens = settings.contextTokens;
  }

  static async started(settings: StandSettings): Promise<Stand> {
    const played = { steps: 5, tokens: 60, contextTokens: 262_144, tokensPerSecond: 200, spareTokens: 0 };
    const all = { args: ["--agents"], ...played, ...settings };
    const { args, ...engine } = all;
    const folder = mkdtempSync(join(tmpdir(), "svc-agents-"));
    const backend = { kind: "agents", ...engine, outage: join(folder, "outage") };
    const service = await startService(
      [0, 0, 0],
      { args: ["--engines", "2", "--log-level", "info", ...args], env: { SVC_AGENTS_ENGINE: JSON.stringify(backend) } },
      "test/agents/start.js",
    );
    return new Stand(service, await Forwarder.to(Number(new URL(service.baseUrl).port)), folder, all);
  }

  async end(): Promise<void> {
    this.#wire.end();
    await this.service.stop();
    if (!process.env.SVC_AGENTS_KEEP) rmSync(this.#folder, { recursive: true, force: true });
  }

  get log(): readonly Logged[] {
    return this.service
      .said()
      .split("\n")
      .filter((line) => line.startsWith("{") && line.includes('"msg":"request"'))
      .map((line) => JSON.parse(line));
  }

  /** Runs an agent in a home folder of its own. */
  async run(installed: Installed, agent: Agent, given: Given = {}): Promise<Seen> {
    const { settings = "page", model = "svc-glm53", contextTokens = this.#contextTokens, spoil, disturb } = given;
    const before = this.log.length;
    const direct = `http://${this.#wire.address}`;
    const spoiler = spoil && (await Spoiler.before(direct, spoil));
    const place = {
      baseUrl: spoiler?.baseUrl ?? direct,
      key: this.service.key,
      model,
      smallModel: model === "svc-glm53" ? "svc-qwen" : model,
      contextTokens,
    };
    const home = mkdtempSync(join(this.#folder, "home-"));
    const work = join(home, "work");
    mkdirSync(work);
    const running = installed.run(agent, place, home, settings);
    const disturbed = disturb?.(this, before).catch((error: unknown) => String(error));
    const ran = await running;
    await disturbed;
    spoiler?.end();
    await this.#settled();
    const log = this.log.slice(before);
    if (process.env.SVC_AGENTS_KEEP) writeFileSync(join(home, "log.json"), JSON.stringify(log, null, 1));
    const { steps, tokens } = this.#script;
    const wrong = Array.from({ length: steps }, (_, index) => index + 1).filter(
      (step) => contentAt(join(work, fileOf(step))) !== contentOf(step, tokens).trim(),
    );
    if (!process.env.SVC_AGENTS_KEEP) rmSync(home, { recursive: true, force: true });
    return { ...ran, log, wrong: wrong.map(fileOf) };
  }

  /** Resolves while the third answer is under way, to the endpoint of the second. */
  async inMidTurn(since: number): Promise<string | undefined> {
    const until = Date.now() + 100_000;
    for (;;) {
      const log = generations(this.log.slice(since)).filter(({ code }) => code === 200);
      if (log.length >= 2 && (await this.#active()) > 0) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        return log.at(-1)?.endpoint;
      }
      if (Date.now() > until) throw new Error("there was no third request");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  killEngines(names: readonly string[]): void {
    for (const name of names)
      for (const pid of processesWith(`${this.service.stateDir}/${name}.yaml`)) process.kill(pid, "SIGKILL");
  }

  /** Closes the connections to the gateway. */
  cut(): void {
    this.#wire.turnTo(Number(new URL(this.service.baseUrl).port));
  }

  async #active(): Promise<number> {
    const stats = await (await fetch(`${this.service.adminUrl}/stats`)).text();
    return metricSum(stats, "svc_cluster_upstream_rq_active");
  }

  /** Resolves when the lines of the requests that an ended agent has made are written. */
  async #settled(): Promise<void> {
    for (let seen = -1; seen !== this.service.said().length; ) {
      seen = this.service.said().length;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
}

export function generations(log: readonly Logged[]): readonly Logged[] {
  return log.filter(
    ({ route, method, transport, socket_end }) =>
      GENERATIONS.test(route) && (transport ? socket_end === undefined : method !== "GET"),
  );
}

function contentAt(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}
