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

/** How one request ended, as its client saw it. */
export type Ended = {
  readonly path: AnswerPath;
  readonly status: number;
  /** The way in which the request ended; `cut` is also a connection that broke before its status line. */
  readonly end: StreamEnd["end"] | "refused";
  /** Whether a delta had come. */
  readonly begun: boolean;
  /** The time from sending the request to its first delta, in milliseconds; undefined where none had come. */
  readonly firstDeltaMs?: number;
};

/** Who takes the requests: a gateway process, or what stands for one. */
type Front = Pick<GatewayProcess, "post">;

/** What the clients of a closed loop are like. */
export type ClosedLoopOptions = {
  /** The keys of the clients, in turn. Default: the one that the front itself has. */
  readonly keys?: readonly string[];
  /** The time that a client waits after each request, in milliseconds. Default: 0. */
  readonly pauseMs?: number;
  /** Fields of each request beside its model, its text and `stream`. Default: none. */
  readonly fields?: (path: AnswerPath) => object;
};

/** Clients that each send one streamed request after the other. */
export type ClosedLoop = {
  readonly ended: readonly Ended[];
  /** Ends the loop when at least `requests` are over; resolves when all are. */
  finish(requests: number): Promise<readonly Ended[]>;
};

/** Starts so many clients at a gateway, each of which sends one streamed request after the other. */
export function closedLoop(gateway: Front, clients: number, options: ClosedLoopOptions = {}): ClosedLoop {
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
    async finish(requests) {
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

/**
 * Returns the requests that ended in a way in which none may: clean without a last word, or broken before a delta had
 * come or in another way than their format's.
 */
export function wronglyEnded(ended: readonly Ended[]): readonly Ended[] {
  const broken = ({ end }: Ended) => end === "cut" || end === "error";
  return ended.filter(
    (one) => one.end === "truncated" || (broken(one) && !(one.begun && one.end === brokenEnd(one.path))),
  );
}

/** Returns how many requests ended in which way, in a word each. */
export function tallyOf(ended: readonly Ended[]): Readonly<Record<string, number>> {
  const tally: Record<string, number> = {};
  for (const { end, begun, status } of ended) {
    const word = end === "refused" ? `refused with ${status}` : begun ? end : `${end} before a delta`;
    tally[word] = (tally[word] ?? 0) + 1;
  }
  return tally;
}
