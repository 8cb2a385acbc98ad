import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { becomes } from "../../support/becomes.ts";
import { type EdgeRig, startEdge } from "../../support/edge/edge-rig.ts";
import { socketThrough } from "../../support/edge/edge-socket.ts";
import { HAS_ENVOY, NO_ENVOY, startEnvoy } from "../../support/edge/envoy-process.ts";
import { FrameClient } from "../../support/http/frame-client.ts";
import { HELD, letEnd, size } from "../../support/processes/fleet.ts";

/* An edge that is stopped under WebSockets, by the shipped script, beside another one that goes on. */

const BUSY = size(6, 16);
const IDLE = size(10, 24);
const ASK = { type: "response.create", model: "svc-qwen", input: "Hi." };

/** Opens a WebSocket of a gateway without the edge, from an address of its own. */
async function socketFrom(localAddress: string, place: EdgeRig["places"][number] | undefined, key: string) {
  const options = { localAddress, headers: { authorization: `Bearer ${key}` } };
  const ws = new WebSocket(`ws://${place?.host}:${place?.port}/v1/responses`, options);
  const client = new FrameClient(ws);
  await once(ws, "open");
  return client;
}

let rig: EdgeRig | undefined;
afterEach(() => rig?.end());

test.skipIf(!HAS_ENVOY)(
  `a stopped edge cuts no answer on a WebSocket, and idle ones do not hold it (${NO_ENVOY})`,
  async () => {
    rig = await startEdge(HELD, { drains: { graceS: 1 } });
    const { edge, envoy, engine, places, certificates } = rig;
    const sockets = (count: number) => Promise.all(Array.from({ length: count }, () => socketThrough(edge)));
    const [busy, idle] = [await sockets(BUSY), await sockets(IDLE)];
    const direct = await socketFrom("127.0.0.9", places[0], edge.key);
    for (const client of busy) client.send(ASK);
    await becomes(async () => (await engine.metric("svc_engine_running")) === BUSY, "all answers run");
    let hasEnded = false;
    const ended = envoy.ended.finally(() => {
      hasEnded = true;
    });
    envoy.signal("SIGTERM");
    expect(await Promise.all(idle.map(({ closed }) => closed))).toEqual(idle.map(() => 1001));
    expect([hasEnded, await engine.metric("svc_engine_running")]).toEqual([false, BUSY]);
    const answers = busy.map(async (client) => (await client.answer()).at(-1)?.type);
    letEnd([engine]);
    expect(await Promise.all(answers)).toEqual(busy.map(() => "response.completed"));
    expect(await Promise.all(busy.map(({ closed }) => closed))).toEqual(busy.map(() => 1001));
    expect(await ended).toBe(0);
    expect((await direct.ask(ASK)).status).toBe("completed");
    const other = await startEnvoy(places, certificates);
    const after = await socketThrough({ ...edge, port: other.port });
    expect((await after.ask(ASK)).status).toBe("completed");
    after.ws.terminate();
    await other.end();
  },
);
