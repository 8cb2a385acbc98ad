import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, onTestFinished, test } from "vitest";
import { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";
import type { WireCall, WireEnd } from "../../../gateway/upstream/wire/generate-wire.ts";
import { HandOver } from "../../../gateway/upstream/wire/hand-over.ts";
import { Http2Wire } from "../../../gateway/upstream/wire/http2-wire.ts";
import { FaultyWire } from "../../support/engine/faulty-wire.ts";
import { WireNode } from "../../support/engine/wire-node.ts";
import { started } from "../../support/events/events.ts";
import { until } from "../../support/until.ts";

/** Makes a call, and returns its end: `OK`, or the number of its status. */
function call(wire: Http2Wire, timeoutMs = 60_000) {
  const handOver = new HandOver({ lane: new FairLane(), tenant: "t", bytes: 3 });
  const request = { message: new Uint8Array(3), headers: {}, deadline: Date.now() + timeoutMs, handOver };
  let messages = 0;
  let running: WireCall | undefined;
  const ended = new Promise<string>((resolve, reject) => {
    let ends = 0;
    running = wire.open(request, {
      message: () => {
        messages += 1;
      },
      ended: ({ error }: WireEnd) => {
        ends += 1;
        if (ends > 1) reject(new Error("it ended twice"));
        resolve(error ? String(error.code) : "OK");
      },
    });
  });
  const connected = () => running?.connected;
  return { ended, messages: () => messages, connected, cancel: (why?: "silent") => running?.cancel(why) };
}

function wireTo(address: string, options: { readonly pingMs?: number; readonly pingTimeoutMs?: number } = {}) {
  const wire = new Http2Wire({ address, tls: undefined, maxMessageBytes: 1_000_000, ...options });
  onTestFinished(() => wire.close());
  return wire;
}

const UNAVAILABLE = "14";

test("a connection without ping replies is closed with its calls, and the next call gets a new one", async () => {
  const node = await WireNode.start({
    models: [],
    play: (played) => {
      played.send(started());
      if (node.calls.length > 1) played.end();
    },
  });
  const between = await FaultyWire.start(node.address);
  onTestFinished(() => node.stop());
  onTestFinished(() => between.close());
  const wire = wireTo(between.address, { pingMs: 100, pingTimeoutMs: 400 });
  const first = call(wire);
  await until(() => first.messages() === 1, "the answer begins");
  between.silence();
  expect(await first.ended).toBe(UNAVAILABLE);
  between.restore();
  await until(() => !wire.connected, "the connection is gone");
  expect(await call(wire).ended).toBe("OK");
});

test("a connection with a silent call has to answer a ping before it gets another call", async () => {
  const node = await WireNode.start({
    models: [],
    play: (played) => {
      played.send(started());
      if (node.calls.length > 2) played.end();
    },
  });
  const between = await FaultyWire.start(node.address);
  onTestFinished(() => node.stop());
  onTestFinished(() => between.close());
  const wire = wireTo(between.address);
  const first = call(wire);
  const beside = call(wire);
  await until(() => first.messages() + beside.messages() === 2, "the answers begin");
  // From here on the bytes of the connection are garbage: Node 24 ends it, and Node 20 does not report it.
  between.garble();
  first.cancel("silent");
  const second = call(wire);
  // Only the waiting call fails to connect in time.
  expect([second.connected(), beside.connected()]).toEqual([false, true]);
  expect(await second.ended).toBe("OK");
});

describe("hundreds of cancelled calls, while a Node server closes the connection after a thousand", () => {
  /** Starts a node that answers the calls selected by `ends`, and leaves the others open. */
  async function wireToNode(ends: (at: number) => boolean) {
    const node = await WireNode.start({
      models: [],
      play: (played) => {
        played.send(started());
        if (ends(node.calls.length)) played.end();
      },
    });
    onTestFinished(() => node.stop());
    return wireTo(node.address);
  }

  /** Opens so many calls at once and cancels all of them when their answers have begun. */
  async function openAndLeave(wire: Http2Wire, count: number): Promise<void> {
    const calls = Array.from({ length: count }, () => call(wire));
    await until(() => calls.every(({ messages }) => messages() === 1), "the answers begin");
    for (const { cancel } of calls) cancel();
    await Promise.all(calls.map(({ ended }) => ended));
  }

  test("hundreds of cancelled calls end no other call, one after the other", async () => {
    const wire = await wireToNode((at) => at > 1_601);
    const running = call(wire);
    let over = false;
    void running.ended.then(() => {
      over = true;
    });
    await until(() => running.messages() === 1, "the answer begins");
    for (let left = 0; left < 1_600; left += 200) await openAndLeave(wire, 200);
    expect(await call(wire).ended).toBe("OK");
    expect(over).toBe(false);
  });

  test("hundreds of cancelled calls end no other call, all at once, though they waited for the connection together", async () => {
    const wire = await wireToNode((at) => at > 2_000);
    await openAndLeave(wire, 2_000);
    expect(await call(wire).ended).toBe("OK");
  });
});

test("without a listener calls fail at once, and a returning one is found", async () => {
  const node = await WireNode.start({ models: [], play: (played) => played.end() });
  const { address } = node;
  onTestFinished(() => node.stop());
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const closed = wireTo(`127.0.0.1:${(gone.address() as AddressInfo).port}`);
  gone.close();
  await once(gone, "close");
  expect(await call(closed).ended).toBe(UNAVAILABLE);
  expect(await call(closed).ended).toBe(UNAVAILABLE);
  const wire = wireTo(address);
  expect(await call(wire).ended).toBe("OK");
  node.crash();
  await until(() => !wire.connected, "the connection is lost");
  expect(await call(wire).ended).toBe("OK");
});

test("a call that is cancelled while it waits for its connection releases its message", async () => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => void sockets.add(socket)).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => {
    silent.close();
    for (const socket of sockets) socket.destroy();
  });
  const wire = wireTo(`127.0.0.1:${(silent.address() as AddressInfo).port}`);
  const listener = { message() {}, ended() {} };
  const messages = Array.from({ length: 3 }, () => {
    const message = new Uint8Array(1_000_000);
    const handOver = new HandOver({ lane: new FairLane(), tenant: "t", bytes: message.length });
    wire.open({ message, headers: {}, deadline: Date.now() + 60_000, handOver }, listener).cancel();
    return new WeakRef(message);
  });
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("nothing can be collected");
  // The connection itself is given up much later.
  await until(() => sockets.size === 1, "it has connected");
  collect();
  expect(messages.map((message) => message.deref()?.length)).toEqual([undefined, undefined, undefined]);
});

test("a wire that is warmed up connects, however recent its last failure", async () => {
  const first = await WireNode.start({ models: [], play: (played) => played.end() });
  onTestFinished(() => first.stop());
  const between = await FaultyWire.start(first.address);
  onTestFinished(() => between.close());
  const wire = wireTo(between.address);
  between.vanish();
  const lost = call(wire);
  await until(() => between.lostBytes > 0, "the connection is under way");
  between.restore();
  expect(await lost.ended).toBe(UNAVAILABLE);
  wire.warm();
  expect(await call(wire).ended).toBe("OK");
});

test("a closed wire ends its calls, and opens no others", async () => {
  const node = await WireNode.start({ models: [], play: (played) => played.send(started()) });
  onTestFinished(() => node.stop());
  const wire = wireTo(node.address);
  const running = call(wire);
  await until(() => running.messages() === 1, "the answer begins");
  wire.close();
  expect([await running.ended, await call(wire).ended]).toEqual([UNAVAILABLE, UNAVAILABLE]);
});
