import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Directive, ENDLESS, MARK, nowUs, STAMP_LENGTH, stampedUs } from "./processes/requests.ts";
import { cpuOf, percentile, residentOf } from "./report.ts";

export type Target = {
  readonly name: string;
  readonly port: number;
  readonly pid: number | undefined;
  request(directive: Directive): string;
};

const HEAD_OK = "HTTP/1.1 200";
/** Milliseconds, in all and per stream: a slower target could never run all of them. */
const OPEN_MS = 5_000;
const OPEN_EACH_MS = 100;

export type Reading = {
  readonly events: number;
  readonly frames: number;
  /** The times from an event's write in the engine to its read here, in milliseconds; only if delays are kept. */
  readonly delaysMs: readonly number[];
  /** The times between two reads with events of a stream, in milliseconds; only if delays are kept. */
  readonly gapsMs: readonly number[];
};

/** Opens many streams to one target, each over its own socket, and reads them without delay. */
export class LoadClient {
  readonly #sockets: Socket[] = [];
  /** The times from a request's write to the first byte of its reply, one per stream, in milliseconds. */
  readonly firstByteMs: number[] = [];
  #ended = 0;
  #events = 0;
  #frames = 0;
  #delaysMs: number[] | undefined;
  #gapsMs: number[] = [];

  private constructor() {}

  /** Opens the streams; resolves when each has had an event. Rejects if one is refused, or at the time limit. */
  static async open(target: Target, requests: readonly string[]): Promise<LoadClient> {
    const client = new LoadClient();
    const late = AbortSignal.timeout(OPEN_MS + OPEN_EACH_MS * requests.length);
    try {
      for (const request of requests) await client.#stream(target, request, late);
      return client;
    } catch (error) {
      client.close();
      throw error;
    }
  }

  get ended(): number {
    return this.#ended;
  }

  start(keepDelays: boolean): void {
    this.#events = 0;
    this.#frames = 0;
    this.#gapsMs = [];
    this.#delaysMs = keepDelays ? [] : undefined;
  }

  read(): Reading {
    return { events: this.#events, frames: this.#frames, delaysMs: this.#delaysMs ?? [], gapsMs: this.#gapsMs };
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #stream(target: Target, request: string, late: AbortSignal): Promise<void> {
    const socket = connect({ port: target.port, host: "127.0.0.1", noDelay: true });
    const index = this.#sockets.push(socket);
    return new Promise((resolve, reject) => {
      late.onabort = () => reject(new Error(`${target.name} was still opening stream ${index} when the time was over`));
      let sentUs = 0;
      let rest = "";
      let lastUs = 0;
      socket.once("connect", () => {
        sentUs = nowUs();
        socket.write(request);
      });
      socket.on("data", (bytes) => {
        if (sentUs > 0) {
          this.firstByteMs.push((nowUs() - sentUs) / 1000);
          sentUs = 0;
          const head = bytes.toString("latin1", 0, HEAD_OK.length);
          if (head !== HEAD_OK) reject(new Error(`${target.name} answered "${head}"`));
        }
        const before = this.#events;
        rest = this.#take(rest + bytes.toString("latin1"));
        if (this.#events === before) return;
        resolve();
        if (!this.#delaysMs) return;
        const readUs = nowUs();
        if (lastUs > 0) this.#gapsMs.push((readUs - lastUs) / 1000);
        lastUs = readUs;
      });
      socket.once("error", reject);
      socket.once("close", () => {
        this.#ended += 1;
        reject(new Error(`${target.name} closed a stream`));
      });
    });
  }

  #take(text: string): string {
    const readUs = this.#delaysMs && nowUs();
    let at = text.indexOf(MARK);
    let end = 0;
    for (; at !== -1; at = text.indexOf(MARK, end)) {
      if (at + STAMP_LENGTH > text.length) break;
      end = at + STAMP_LENGTH;
      this.#events += 1;
      if (readUs === undefined) continue;
      const writtenUs = stampedUs(text, at);
      if (writtenUs !== undefined) this.#delaysMs?.push((readUs - writtenUs) / 1000);
    }
    for (let frame = text.indexOf("\n\n"); frame !== -1; frame = text.indexOf("\n\n", frame + 2)) this.#frames += 1;
    return at === -1 ? "" : text.slice(at);
  }
}

/** The time for streams to start at different moments and for JIT compilation, not measured, in milliseconds. */
export const SETTLE_MS = 500;
/** The time until all processes have detected that the streams are closed, in milliseconds. */
const LEAVE_MS = 200;

export type Load = Omit<Directive, "events"> & { readonly streams: number };

/** One measurement of a target; numbers of the process are NaN if there is none in the middle. */
export type Window = {
  readonly events: number;
  readonly frames: number;
  readonly cpuUs: number;
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
  readonly firstByteP50Ms: number;
  /** The 99th percentile of the time between two events of a stream, in milliseconds. */
  readonly gapP99Ms: number;
  readonly gapMostMs: number;
  readonly residentMb: number;
};

/**
 * Applies the load to the target and measures for `seconds`, after `settleMs` of the same load. `keepDelays` keeps the
 * delay of every event; off if the client would become the bottleneck. `atBorders` is awaited at the beginning and end
 * of the measurement, with all streams open.
 */
export async function measureWindow(
  target: Target,
  load: Load,
  seconds: number,
  keepDelays: boolean,
  settleMs = SETTLE_MS,
  atBorders = async (): Promise<void> => {},
): Promise<Window> {
  const { streams, ...pace } = load;
  const request = target.request({ ...pace, events: ENDLESS });
  const client = await LoadClient.open(
    target,
    Array.from({ length: streams }, () => request),
  );
  try {
    await sleep(settleMs);
    await atBorders();
    client.start(keepDelays);
    const cpuBefore = cpuOf(target);
    await sleep(seconds * 1000);
    const { events, frames, delaysMs, gapsMs } = client.read();
    const cpuAfter = cpuOf(target);
    await atBorders();
    return {
      events,
      frames,
      cpuUs: (cpuAfter - cpuBefore) * 1000,
      delayP50Ms: percentile(delaysMs, 0.5),
      delayP99Ms: percentile(delaysMs, 0.99),
      firstByteP50Ms: percentile(client.firstByteMs, 0.5),
      gapP99Ms: percentile(gapsMs, 0.99),
      gapMostMs: percentile(gapsMs, 1),
      residentMb: residentOf(target),
    };
  } finally {
    client.close();
    await sleep(LEAVE_MS);
  }
}
