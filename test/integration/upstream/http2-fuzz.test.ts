import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";
import type { WireCall } from "../../../gateway/upstream/wire/generate-wire.ts";
import { HandOver } from "../../../gateway/upstream/wire/hand-over.ts";
import { FrameCutter, FrameType, PREFACE } from "../../../gateway/upstream/wire/http2/frames.ts";
import { Http2Wire } from "../../../gateway/upstream/wire/http2-wire.ts";
import { HostileFrames } from "../../support/gateway/hostile-frames.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { sizeOf } from "../../support/size.ts";

const CONNECTIONS = sizeOf({ quick: 100, exhaustive: 2_000, promised: 12_000 });
const CALLS = 2;
const MAX_MESSAGE_BYTES = 1_000_000;
/** The most event loop ticks that a node waits for calls, which may have been cancelled. */
const MOST_TURNS = 100;

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function turns(count: number, until = () => false): Promise<void> {
  for (let at = 0; at < count && !until(); at += 1) await turn();
}

/** Acts as a broken node on one connection, which it always ends: a call may wait for frames that never come. */
async function play(socket: Socket, random: SeededRandom): Promise<void> {
  const frames = new HostileFrames(random);
  let [skipped, begun] = [0, 0];
  const cutter = new FrameCutter(16_384, (type) => {
    if (type === FrameType.HEADERS) begun += 1;
    return true;
  });
  socket.on("error", () => {});
  socket.on("data", (bytes) => {
    const preface = Math.min(bytes.length, PREFACE.length - skipped);
    skipped += preface;
    cutter.take(bytes.subarray(preface));
  });
  if (random.below(20) > 0) {
    const { bytes, maxStreams } = frames.settings();
    socket.write(bytes);
    await turns(MOST_TURNS, () => begun >= Math.min(CALLS, maxStreams) || socket.destroyed);
  }
  const bytes = frames.some();
  const whole = random.below(4) > 0 ? bytes.length : random.below(bytes.length);
  const pieces = random.pick([1, 1, 3, 10]);
  for (let piece = 0; piece < pieces && !socket.destroyed; piece += 1) {
    const size = Math.ceil(whole / pieces);
    socket.write(bytes.subarray(piece * size, Math.min(whole, (piece + 1) * size)));
    await turns(random.below(3));
  }
  await turns(random.pick([0, 5, 20]));
  if (random.below(3) === 0) socket.resetAndDestroy();
  else if (random.below(2) === 0) socket.destroy();
  else socket.end();
}

/** Makes a call and resolves to its end. Some calls are paused for some ticks, and some are cancelled. */
async function call(wire: Http2Wire, random: SeededRandom): Promise<string> {
  const handOver = new HandOver({ lane: new FairLane(), tenant: "t", bytes: 3 });
  const message = new Uint8Array(random.pick([3, 3, 100_000]));
  const ends: string[] = [];
  const cancelsAtMessage = random.below(8) === 0;
  let running: WireCall | undefined;
  const ended = new Promise<void>((resolve) => {
    running = wire.open(
      { message, headers: {}, deadline: Date.now() + 60_000, handOver },
      {
        message: (bytes, from, to) => {
          if (to - from > MAX_MESSAGE_BYTES || to > bytes.length) ends.push("impossible message");
          if (ends.length > 0) ends.push("message behind the end");
          if (cancelsAtMessage) running?.cancel();
        },
        ended: ({ error }) => {
          ends.push(error ? String(error.code) : "OK");
          resolve();
        },
      },
    );
  });
  const [pauses, cancels] = [random.below(4) === 0, random.below(8) === 0];
  await turns(random.below(6));
  if (pauses) running?.pause();
  await turns(pauses || cancels ? random.below(30) : 0);
  if (cancels) running?.cancel(random.below(2) === 0 ? "silent" : undefined);
  if (pauses) running?.resume();
  let timer: NodeJS.Timeout | undefined;
  const hangs = new Promise<void>((_, reject) => {
    timer = setTimeout(() => reject(new Error("a call hangs")), 30_000);
  });
  await Promise.race([ended, hangs]).finally(() => clearTimeout(timer));
  await turns(3);
  return ends.join(", ");
}

function bytesInUse(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("nothing can be collected");
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test("H5 whatever frames a node sends, each call ends once, with no event after its end", async () => {
  let random = new SeededRandom(0);
  const server = createServer((socket) => void play(socket, random)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const outcomes = new Map<string, number>();
  const before = bytesInUse();
  let most = 0;
  for (let seed = 1; seed <= CONNECTIONS; seed += 1) {
    random = new SeededRandom(seed);
    const wire = new Http2Wire({ address, tls: undefined, maxMessageBytes: MAX_MESSAGE_BYTES });
    const calls = Array.from({ length: CALLS }, (_, at) => call(wire, new SeededRandom(-CALLS * seed - at)));
    const ends = await Promise.all(calls).catch((error: unknown) => [String(error)]);
    wire.close();
    for (const end of ends) expect(end, `seed ${seed}`).toMatch(/^(?:OK|\d+)$/);
    for (const end of ends) outcomes.set(end, (outcomes.get(end) ?? 0) + 1);
    // Without garbage, whose collection depends on the rest of the process.
    if (seed % 25 === 0) most = Math.max(most, bytesInUse() - before);
  }
  // Some answers succeed, and others fail in several ways.
  expect(outcomes.get("OK")).toBeGreaterThan((CONNECTIONS * CALLS) / 50);
  expect(outcomes.size).toBeGreaterThan(4);
  expect(most).toBeLessThan(16_000_000);
}, 600_000);
