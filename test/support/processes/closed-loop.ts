import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf, hasDelta } from "../http/answer-check.ts";
import { readBody } from "../http/read-until.ts";
import type { GatewayProcess } from "./gateway-process.ts";

/** How one request ended, as its client saw it. */
export type Ended = {
  readonly path: AnswerPath;
  readonly status: number;
  /** The way in which the request ended; `cut` is neither a last word nor an error frame, or a broken connection. */
  readonly end: "complete" | "error" | "cut" | "refused";
  /** Whether a delta had come. */
  readonly begun: boolean;
};

/** Clients that each send one streamed request after the other. */
export type ClosedLoop = {
  readonly ended: readonly Ended[];
  /** Ends the loop when at least `requests` are over; resolves when all are. */
  finish(requests: number): Promise<readonly Ended[]>;
};

/** Starts so many clients at a gateway, each of which sends one streamed request after the other. */
export function closedLoop(gateway: GatewayProcess, clients: number): ClosedLoop {
  const ended: Ended[] = [];
  let wanted = Number.POSITIVE_INFINITY;
  let sent = 0;
  const client = async (index: number) => {
    for (let turn = 0; sent < wanted; turn += 1) {
      sent += 1;
      const path = ANSWER_PATHS[(index + turn) % ANSWER_PATHS.length] ?? "/v1/messages";
      ended.push(await streamOnce(gateway, path, `client ${index} turn ${turn}`));
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
export async function streamOnce(gateway: GatewayProcess, path: AnswerPath, text: string): Promise<Ended> {
  const body = bodyFor(path, text, { stream: true });
  let status = 0;
  let read = () => "";
  try {
    const response = await gateway.post(path, body);
    status = response.status;
    const reader = readBody(response);
    read = reader.text;
    const whole = await reader.toEnd();
    if (status !== 200) return { path, status, end: "refused", begun: false };
    return { path, status, end: endOf(path, whole).end, begun: hasDelta(path, whole) };
  } catch {
    return { path, status, end: "cut", begun: hasDelta(path, read()) };
  }
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
