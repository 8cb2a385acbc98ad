import * as z from "zod";
import type { Workers } from "../../workers.ts";
import { type AdminRoute, jsonReply, wantsJson } from "./admin-route.ts";

/**
 * The time that a worker may take to answer, in milliseconds. All are on this machine: one that takes so long is stuck.
 */
const ANSWER_MS = 1_000;

/** The part of a worker's `/live` that can be added up. */
const live = z.object({
  state: z.string(),
  uptimeMs: z.number(),
  connections: z.number(),
  rssBytes: z.number(),
  clusters: z.array(z.object({ active: z.number(), requests: z.number(), errors: z.number() })),
});

type WorkerStatus = {
  /** The number of the worker, from 1. */
  readonly index: number;
  readonly adminUrl: string;
  /** The state of the worker in Envoy's words, or that it gave no answer; then there is nothing else. */
  readonly state: string;
  readonly uptimeMs?: number;
  readonly connections?: number;
  readonly active?: number;
  readonly requests?: number;
  readonly errors?: number;
  readonly rssBytes?: number;
};

const COUNTS = ["connections", "active", "requests", "errors", "rssBytes"] as const;

/**
 * Makes the path that shows all workers which share the public port. Whichever of them is asked asks the others, so
 * that one admin port is enough to see the whole.
 */
export function workersRoutes(workers: Workers): readonly AdminRoute[] {
  return [
    {
      path: "/workers",
      does: "reads",
      help: "the gateway workers on this public port, and their sums; ?format=json",
      async handle(request) {
        const statuses = await Promise.all(workers.adminUrls.map(statusOf));
        const answered = statuses.filter(({ uptimeMs }) => uptimeMs !== undefined);
        const total = Object.fromEntries(
          COUNTS.map((name) => [name, answered.reduce((sum, status) => sum + (status[name] ?? 0), 0)]),
        );
        if (wantsJson(request)) return jsonReply({ workers: statuses, answered: answered.length, total });
        const lines = statuses.flatMap(({ index, ...values }) => linesOf(`worker ${index}`, values));
        return { body: [...lines, ...linesOf(`total of ${answered.length}`, total)].join("") };
      },
    },
  ];
}

async function statusOf(adminUrl: string, at: number): Promise<WorkerStatus> {
  const index = at + 1;
  try {
    const reply = await fetch(`${adminUrl}/live`, { signal: AbortSignal.timeout(ANSWER_MS) });
    const { state, uptimeMs, connections, rssBytes, clusters } = live.parse(await reply.json());
    const sum = (name: "active" | "requests" | "errors") => clusters.reduce((all, cluster) => all + cluster[name], 0);
    const traffic = { active: sum("active"), requests: sum("requests"), errors: sum("errors") };
    return { index, adminUrl, state, uptimeMs, connections, ...traffic, rssBytes };
  } catch {
    return { index, adminUrl, state: "no answer" };
  }
}

function linesOf(name: string, values: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(values).map(([what, value]) => `${name}::${what}::${value}\n`);
}
