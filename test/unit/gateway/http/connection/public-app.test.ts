import { Socket } from "node:net";
import { expect, test } from "vitest";
import { systemClock } from "../../../../../deploy/runtime/time/clock.ts";
import { publicApp } from "../../../../../gateway/http/connection/public-app.ts";
import type { RecordSinks } from "../../../../../gateway/http/record/access-log.ts";

/** The most connections that are looked at in one turn of the event loop. */
const MOST_IN_A_TURN = 64;

test("connections that are too slow together are closed a few in each turn", async () => {
  // Nothing is recorded of connections without a request.
  const sinks = { clock: systemClock, tracing: undefined } as Partial<RecordSinks> as RecordSinks;
  const { app } = publicApp({ requestTimeoutMs: 1_000, requestHeadersTimeoutMs: 1_000 }, sinks);
  const sockets = Array.from({ length: 1_000 }, () => new Socket());
  const tooSlow = Object.assign(new Error("too slow"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  // As Node does, which finds all of them in one turn.
  for (const socket of sockets) app.server.emit("clientError", tooSlow, socket);
  const closed = () => sockets.filter(({ destroyed }) => destroyed).length;
  const perTurn = [closed()];
  for (let before = closed(); before < sockets.length; before = closed()) {
    await new Promise((resolve) => setImmediate(resolve));
    perTurn.push(closed() - before);
  }
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(MOST_IN_A_TURN);
  await app.close();
});
