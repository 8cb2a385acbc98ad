import { setTimeout as sleep } from "node:timers/promises";
import {
  ANSWER_PATHS,
  type AnswerPath,
  bodyFor,
  brokenEnd,
  endOf,
  hasDelta,
  type StreamEnd,
} from "../http/answer-check.ts";
import { readBody } from "../http/read-until.ts";
import type { GatewayProcess } from "./gateway-process.ts";

export type Ended = {
  readonly path: AnswerPath;
  readonly status: number;
  /** How the request ended; `cut` includes a connection that broke before its status line. */
  readonly end: StreamEnd["end"] | "refused";
  readonly begun: boolean;
  /** Milliseconds from sending the request to its first delta; undefined without one. */
  readonly firstDeltaMs?: number;
};

type Front = Pick<GatewayProcess, "post">;

export type ClosedLoopOptions = {
  /** Keys of the clients, in turn. Default: the front's own. */
  readonly keys?: readonly string[];
  readonly pauseMs?: number;
  readonly fields?: (path: AnswerPath) => object;
};

export type ClosedLoop = ReturnType<typeof closedLoop>;

/** Starts clients that each send one streamed request after the other. */
export function closedLoop(gateway: Front, clients: number, options: ClosedLoopOptions = {}) {
  const { keys = [], pauseMs = 0, fields } = options;
  const ended: Ended[] = [];
  let wanted = Number.POSITIVE_INFINITY;
  let sent = 0;
  const client = async (index: number) => {
    for (let turn = 0; sent < wanted; turn += 1) {
      sent += 1;
      const path = ANSWER_PATHS[(index + turn) % ANSWER_PATHS.length] ?? "/v1/messages";
      const body = bodyFor(path, `client ${index} turn ${turn}`, { ...fields?.(path), stream: true });
      ended.push(await streamBody(gateway, path, body, keys[index % keys.length]));
      if (pauseMs > 0) await sleep(pauseMs);
    }
  };
  const all = Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return {
    ended,
    /** Ends the loop after at least `requests` requests; resolves when all have ended. */
    async finish(requests: number): Promise<readonly Ended[]> {
      wanted = requests;
      await all;
      return ended;
    },
  };
}

/** Sends one streamed request and reads it to its end. Never rejects. */
export function streamOnce(gateway: Front, path: AnswerPath, text: string): Promise<Ended> {
  return streamBody(gateway, path, bodyFor(path, text, { stream: true }));
}

async function streamBody(gateway: Front, path: AnswerPath, body: object, key?: string): Promise<Ended> {
  const sentAtMs = performance.now();
  let status = 0;
  let read = () => "";
  let firstDeltaMs: number | undefined;
  try {
    const response = await gateway.post(path, body, undefined, key);
    status = response.status;
    const reader = readBody(response);
    read = reader.text;
    await reader
      .until((text) => hasDelta(path, text))
      .then(
        () => {
          firstDeltaMs = performance.now() - sentAtMs;
        },
        () => {},
      );
    const whole = await reader.toEndOrCut();
    if (status !== 200) return { path, status, end: "refused", begun: false };
    return {
      path,
      status,
      end: endOf(path, whole.text, whole.cut).end,
      begun: firstDeltaMs !== undefined,
      ...(firstDeltaMs !== undefined && { firstDeltaMs }),
    };
  } catch {
    return { path, status, end: "cut", begun: hasDelta(path, read()) };
  }
}

/** Returns the requests that ended truncated, or broken before a delta or differently from their format. */
export function wronglyEnded(ended: readonly Ended[]): readonly Ended[] {
  const broken = ({ end }: Ended) => end === "cut" || end === "error";
  return ended.filter(
    (one) => one.end === "truncated" || (broken(one) && !(one.begun && one.end === brokenEnd(one.path))),
  );
}

export function tallyOf(ended: readonly Ended[]): Readonly<Record<string, number>> {
  const tally: Record<string, number> = {};
  for (const { end, begun, status } of ended) {
    const word = end === "refused" ? `refused with ${status}` : begun ? end : `${end} before a delta`;
    tally[word] = (tally[word] ?? 0) + 1;
  }
  return tally;
}
