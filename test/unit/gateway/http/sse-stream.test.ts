import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { SseStream } from "../../../../gateway/http/answer/sse-stream.ts";
import { delta, started, textStart } from "../../../support/events/events.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/** Resolves when the stream has written what the tick of the event loop collected. */
const nextTick = () => new Promise((resolve) => setImmediate(resolve));

/** The socket of a response: accepts all writes, but reports backpressure while `full`. */
class Wire extends EventEmitter {
  full = false;
  destroyed = false;
  headersSent = false;
  get writableNeedDrain(): boolean {
    return this.full;
  }
  readonly written: string[] = [];
  chunkedEncoding = true;
  readonly socket = null;
  writeHead(): void {
    this.headersSent = true;
  }
  flushHeaders(): void {}
  /** The written bytes, in the encoding of each write. */
  get bytes(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
  readonly #chunks: Buffer[] = [];
  write(text: string, encoding: BufferEncoding = "utf8"): boolean {
    this.written.push(text);
    this.#chunks.push(Buffer.from(text, encoding));
    return !this.full;
  }
  end(): void {}
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

function streaming(times: { readonly keepAliveIntervalMs?: number; readonly headerCommitMs?: number } = {}) {
  const clock = new VirtualClock();
  const wire = new Wire();
  const gaps: number[] = [];
  const pauses: boolean[] = [];
  const calls: string[] = [];
  const flow = { pause: () => calls.push("pause"), resume: () => calls.push("resume") };
  const stream = new SseStream({
    response: wire as unknown as ServerResponse,
    encoder: {
      next: () => "data: x\n\n",
      text: (text) => `data: ${text}\n\n`,
      fail: () => "data: failed\n\n",
      keepAlive: () => ": keepalive\n\n",
    },
    headers: {},
    clock,
    keepAliveIntervalMs: 10_000,
    headerCommitMs: 8_000,
    ...times,
    writeStallMs: 30_000,
    onStall: () => {},
    onGap: (gapMs) => gaps.push(gapMs),
    onPaused: (paused) => pauses.push(paused),
  });
  const write = async (atMs: number) => {
    await clock.advance(atMs - clock.nowMs());
    stream.events([textStart(0), delta(0, "x")], flow);
    await nextTick();
  };
  return { wire, gaps, pauses, calls, write, clock, stream, flow };
}

test("every write of events but the first reports the gap since the previous one", async () => {
  const { gaps, write } = streaming();
  for (const atMs of [100, 120, 1_120]) await write(atMs);
  expect(gaps).toEqual([20, 1_000]);
});

test("a stream that ends while it is paused is no longer paused", async () => {
  const { wire, pauses, write } = streaming();
  wire.full = true;
  await write(0);
  wire.destroy();
  wire.emit("drain");
  expect(pauses).toEqual([true, false]);
});

test.each([
  { keepAliveIntervalMs: 10_000, headerCommitMs: 8_000, first: 8_000, next: 18_000 },
  { keepAliveIntervalMs: 5_000, headerCommitMs: 8_000, first: 5_000, next: 10_000 },
])("a silent engine: the status line at $first ms with a keep-alive, the next one at $next ms", async (given) => {
  const { first, next, ...times } = given;
  const { wire, clock, stream } = streaming(times);
  await clock.advance(first - 1);
  expect({ headersSent: wire.headersSent, committed: stream.committed }).toEqual({
    headersSent: false,
    committed: false,
  });
  await clock.advance(1);
  expect({ headersSent: wire.headersSent, committed: stream.committed }).toEqual({
    headersSent: true,
    committed: true,
  });
  await clock.advance(next - first - 1);
  expect(wire.written).toEqual(["d\r\n: keepalive\n\n\r\n"]);
  await clock.advance(1);
  expect(wire.written).toHaveLength(2);
});

test("events of an engine before its first delta are sent with the status line", async () => {
  const { wire, clock, stream, flow } = streaming();
  stream.events([started()], flow);
  await clock.advance(7_999);
  expect(wire.written).toEqual([]);
  await clock.advance(1);
  expect(wire.written).toEqual(["16\r\ndata: x\n\n: keepalive\n\n\r\n"]);
});

test("an engine that continues the answer is paused for a slow reader, as the one before it", async () => {
  const { wire, write, calls, pauses, stream } = streaming();
  wire.full = true;
  await write(0);
  expect(calls).toEqual(["pause"]);
  const next: string[] = [];
  const flow = { pause: () => next.push("pause"), resume: () => next.push("resume") };
  stream.events([delta(0, "y")], flow);
  expect(next).toEqual(["pause"]);
  stream.events([delta(0, "z")], flow);
  wire.full = false;
  wire.emit("drain");
  expect(next).toEqual(["pause", "resume"]);
  expect(calls).toEqual(["pause"]);
  expect(pauses).toEqual([true, false]);
});
