import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { KeptConversations } from "../../../../gateway/http/websocket/kept-conversations.ts";
import { ResponseSocket, type SocketDeps } from "../../../../gateway/http/websocket/response-socket.ts";
import { BodyBudget } from "../../../../gateway/overload/body-budget.ts";
import { Stats } from "../../../../gateway/stats/stats.ts";
import { becomes } from "../../../support/becomes.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/* The clocks of a socket, over a real connection: what passes between frames. */

async function connected(options: { readonly autoPong?: boolean } = {}) {
  const clock = new VirtualClock();
  const budget = new BodyBudget({ maxBytes: 1_000_000, clock });
  const stats = new Stats();
  const deps = {
    ...{ clock, stats, kept: new KeptConversations(budget) },
    bodies: { maxBodyBytes: 100_000, random: () => 0.5, overload: { bodies: budget } },
  } as unknown as SocketDeps;
  let pongs = 0;
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  const accepted = new Promise<ResponseSocket>((resolve) => {
    server.on("upgrade", (request, raw, head) => {
      const caller = { rawHeaders: [], address: "127.0.0.1", headers: {}, principal: { tenant: "t" } } as never;
      sockets.handleUpgrade(request, raw, head, (ws) => {
        ws.on("pong", () => {
          pongs += 1;
        });
        resolve(new ResponseSocket(ws, raw as Socket, caller, deps));
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, options);
  onTestFinished(() => {
    client.terminate();
    server.close();
  });
  const closed = once(client, "close").then(([code]) => code as number);
  await once(client, "open");
  const socket = await accepted;
  /** Passes the time of `pings` pings, each of which the caller has answered when the next is due. */
  const pass = async (pings: number) => {
    for (let ping = 0; ping < pings; ping += 1) {
      const before = pongs;
      await clock.advance(30_000);
      await becomes(async () => pongs > before || client.readyState !== client.OPEN, "a pong or the end");
    }
  };
  return { socket, closed, clock, pass };
}

test("a silent caller that answers pings is kept for ten minutes", async () => {
  const { socket, closed, pass } = await connected();
  await pass(19);
  expect(socket.end).toBe("client");
  await pass(1);
  expect(await closed).toBe(1001);
  expect(socket.end).toBe("idle");
});

test("a caller that answers no ping is lost", async () => {
  const { socket, closed, clock } = await connected({ autoPong: false });
  await clock.advance(60_000);
  expect(socket.end).toBe("client");
  await clock.advance(30_000);
  expect(await closed).toBe(1006);
  expect(socket.end).toBe("lost");
});

test("a drain closes within its grace", async () => {
  const { socket, closed, clock } = await connected();
  socket.leaveAfter(5_000);
  await clock.advance(4_000);
  // One who asks again does not put it off.
  socket.leaveAfter(5_000);
  await clock.advance(999);
  expect(socket.end).toBe("client");
  await clock.advance(1);
  expect(await closed).toBe(1001);
  expect(socket.end).toBe("drain");
});
