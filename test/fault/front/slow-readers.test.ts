import { afterEach, expect, test } from "vitest";
import { GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { becomes } from "../../support/becomes.ts";
import { framed } from "../../support/engine/raw-generate.ts";
import { WireNode } from "../../support/engine/wire-node.ts";
import { delta, started, textStart } from "../../support/events/events.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { jsonPost, RawConnection } from "../../support/http/raw-http.ts";
import { Fleet, healthy, nothingOpen, show, size } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { memoryOf } from "../../support/processes/processes-with.ts";

/*
 * E7: clients that read slowly or not at all. Each pauses only its own engine stream, costs little memory, and is cut
 * in time.
 */

const READERS = size(32, 300);
const PIECE = "x".repeat(4_096);
/** Far more than all buffers on the way hold: 400 MiB. */
const PIECES = 100_000;
/** Twice the limit of one stream: a process returns temporary memory late. */
const MAX_STREAM_BYTES = 2 * 1024 * 1024;
/**
 * Garbage is collected soon, so that a process holds only needed memory: answers of format C are kept to their end, and
 * here the part in the system's buffers, too.
 */
const TIDY = ["env", `NODE_OPTIONS=--max-semi-space-size=1 --max-old-space-size=${size(512, 2_048)}`];
/** Memory that a Node process keeps; Node 24 takes twice as much as Node 20. */
const SLACK_BYTES = 192 * 1024 * 1024;

const fleet = new Fleet();
const connections: RawConnection[] = [];

afterEach(() => {
  for (const connection of connections.splice(0)) connection.destroy();
});

async function floodingNode(): Promise<WireNode> {
  const piece = framed(GenerateResponse.encode({ events: [delta(0, PIECE)], tokens: [] }).finish());
  const node = await WireNode.start({
    models: ["svc-qwen"],
    describe: { maxConcurrentRequests: READERS },
    async play(call) {
      call.send(started(), textStart(0));
      for (let sent = 0; sent < PIECES && !call.stream.closed; sent += 1) await call.bytes(piece);
    },
  });
  fleet.onEnd(() => node.stop());
  return node;
}

async function openReader(gateway: GatewayProcess, index: number, untilDelta: boolean): Promise<RawConnection> {
  const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
  const connection = await RawConnection.open(gateway.port);
  connections.push(connection);
  if (!untilDelta) connection.pause();
  connection.write(jsonPost(path, gateway.key, bodyFor(path, `reader ${index}`, { stream: true })));
  if (untilDelta) await connection.until(PIECE);
  connection.pause();
  return connection;
}

function sip(readers: readonly RawConnection[]): () => void {
  const timer = setInterval(() => {
    for (const reader of readers) reader.takeOnce();
  }, 1_000);
  fleet.onEnd(() => clearInterval(timer));
  return () => clearInterval(timer);
}

type Habit = "read nothing at all" | "stop reading in the middle" | "read a little from time to time, and then no more";

const HABITS: readonly Habit[] = [
  "read nothing at all",
  "stop reading in the middle",
  "read a little from time to time, and then no more",
];
/** With FULL=1 each habit has its own readers, and otherwise they share them. */
const ROWS = size(0, 1) === 1 ? HABITS.map((habit) => [habit]) : [HABITS];

test.skipIf(process.platform !== "linux").each(ROWS.map((habits) => [habits.join(", or "), habits] as const))(
  "E7 clients that %s hold back their engine streams, cost little, and are cut",
  async (what, habits) => {
    const node = await floodingNode();
    const endpoints = [{ address: node.address }];
    const gateway = await fleet.gateway({ endpoints }, { timeouts: { requestTimeoutMs: 4_000 } }, TIDY);
    await healthy(gateway, node.address);
    const before = memoryOf(gateway.process.child.pid);
    // Each format with each habit.
    const habitOf = (index: number) => habits[Math.floor(index / ANSWER_PATHS.length) % habits.length];
    const readers = await Promise.all(
      Array.from({ length: READERS }, (_, index) =>
        openReader(gateway, index, habitOf(index) !== "read nothing at all"),
      ),
    );
    const stop = sip(readers.filter((_, index) => habitOf(index)?.startsWith("read a little")));
    const logged = () => gateway.process.log.filter(({ msg }) => msg === "request");
    // On a busy machine the first are cut before the last are paused.
    const held = async () => (await gateway.stat("svc_streams_paused_backpressure")) + logged().length;
    await becomes(async () => (await held()) >= READERS / 2, "engine streams are held back");
    const grown = memoryOf(gateway.process.child.pid) - before;
    show(`clients that ${what}`, { clients: READERS, residentKiBPerStream: Math.round(grown / READERS / 1_024) });
    expect(grown).toBeLessThan(READERS * MAX_STREAM_BYTES + SLACK_BYTES);
    stop();
    await nothingOpen(gateway, []);
    await Promise.all(node.calls.map(({ closed }) => closed));
    await becomes(async () => logged().length === READERS, "all are logged");
    for (const line of logged()) expect(line).toMatchObject({ end_reason: "slow_reader", response_flags: "SI" });
  },
);
