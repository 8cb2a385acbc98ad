import { describe, expect, onTestFinished, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { textAnswer } from "../../support/events/events.ts";
import { startScriptedService } from "../../support/gateway/scripted-service.ts";
import { startGateway } from "../../support/gateway/start-gateway.ts";
import { FrameClient } from "../../support/http/frame-client.ts";
import { until } from "../../support/until.ts";

/* Prompts of which a node gets only what it does not have. */

const LONG = "a long text of a user, ".repeat(2_000);
const user = (text: string) => ({ type: "message", role: "user", content: text });

async function serviceWith(engine: object = {}) {
  const service = await startScriptedService({ engine });
  onTestFinished(() => service.stop());
  const open = async (key = service.gateway.key) => {
    const client = await FrameClient.open({ port: service.gateway.port, key });
    onTestFinished(() => client.ws.terminate());
    return client;
  };
  const bases = async () => {
    const text = await service.gateway.stats.registry.getSingleMetricAsString("svc_prompt_bases_total");
    const count = (base: string) => Number(new RegExp(`base="${base}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
    return { found: count("found"), unknown: count("unknown") };
  };
  return { service, open, bases };
}

/** A conversation by socket, with each turn by HTTP as well: what reaches the engine has to be the same. */
async function converse({ service, open }: Awaited<ReturnType<typeof serviceWith>>, turns = 4) {
  const client = await open();
  const head = { model: "svc-qwen", store: false, instructions: "Be terse." };
  const items: object[] = [];
  let previous: string | undefined;
  for (let turn = 0; turn < turns; turn += 1) {
    const said = user(turn === 0 ? LONG : `turn ${turn}`);
    items.push(said);
    const frame = { ...head, input: [said], ...(previous && { previous_response_id: previous }) };
    const answered = await client.ask(frame);
    expect(answered.status).toBe("completed");
    const { requestId: _socket, ...bySocket } = { ...service.lastRequest(), lease: false };
    await service.stream("/v1/responses", { ...head, input: items });
    const { requestId: _http, ...byHttp } = service.lastRequest();
    expect(bySocket).toEqual(byHttp);
    expect(bySocket.messages).toHaveLength(items.length + 1);
    expect(bySocket.baseDigest).toHaveLength(0);
    items.push(...answered.output);
    previous = answered.id;
  }
}

describe("a prompt whose beginning the node has", () => {
  test("a prompt whose beginning the node has reaches the engine as the whole one does, by socket and by HTTP", async () => {
    const own = await serviceWith();
    await converse(own);
    expect(await own.bases()).toEqual({ found: 7, unknown: 0 });
  });

  test("a prompt whose beginning the node has is sent whole where the node has dropped it, which its caller does not see", async () => {
    // Room for one prompt: each of two conversations drops the other.
    const own = await serviceWith({ promptMegabytes: 0.15 });
    const ask = async (name: string, more: readonly string[] = []) => {
      const input = [user(`${name} ${LONG}`), ...more.map(user)];
      expect(await own.service.reply("/v1/responses", { input })).toMatchObject({ status: "completed" });
      expect(own.service.lastRequest().messages).toHaveLength(input.length);
    };
    await ask("a");
    await ask("b");
    await ask("a", ["go on"]);
    await ask("a", ["go on", "and on"]);
    expect(await own.bases()).toEqual({ found: 1, unknown: 1 });
    expect(own.service.engine.backend.requests).toHaveLength(4);
  });

  test("a prompt whose beginning the node has goes whole to a node that keeps none, and is kept apart from another tenant's", async () => {
    const older = await serviceWith({ promptMegabytes: 0 });
    await converse(older, 2);
    expect(await older.bases()).toEqual({ found: 0, unknown: 0 });
    const own = await serviceWith();
    const keys = [
      await own.service.createKey("--name", "b", "--models", "all"),
      await own.service.createKey("--name", "c", "--models", "all"),
    ];
    for (const key of keys) {
      const client = await own.open(key);
      await client.ask({ model: "svc-qwen", store: false, input: [user(LONG)] });
    }
    expect(await own.bases()).toEqual({ found: 0, unknown: 0 });
  });

  test("a prompt whose beginning the node has goes first at its node when its socket closes, or when another conversation takes its lane", async () => {
    const { service, open, bases } = await serviceWith();
    const { endedLeases, requests } = service.engine.backend;
    const client = await open();
    const ask = (text: string, more: object = {}) => client.ask({ model: "svc-qwen", input: [user(text)], ...more });
    const { id } = await ask(LONG);
    expect(requests.at(-1)?.lease).toBe(true);
    await ask("go on", { previous_response_id: id });
    expect(endedLeases).toEqual([]);
    const digest = () => requests.at(-1)?.prefixDigests.subarray(-16).toString("latin1");
    const first = digest();
    await ask("another");
    await until(() => endedLeases.length === 1, "the end of a lease");
    expect(endedLeases).toEqual([first]);
    const second = digest();
    await client.close();
    await until(() => endedLeases.length === 2, "the end of the other");
    expect(endedLeases[1]).toBe(second);
    // The node has dropped the messages as well.
    await service.reply("/v1/responses", { input: [user(LONG), user("go on")] });
    expect(await bases()).toEqual({ found: 1, unknown: 1 });
    expect(requests.at(-1)?.lease).toBe(false);
  });

  test("a prompt whose beginning the node has goes whole to another node where its own one refuses", async () => {
    let isFull = false;
    const script: Script = () => {
      if (!isFull) return [textAnswer("Hello.")];
      isFull = false;
      throw new EngineError("QUEUE_FULL", "full");
    };
    const engines = [await startEngine(script), await startEngine(script)];
    const gateway = await startGateway(engines.map(({ address }) => address));
    onTestFinished(async () => {
      await gateway.stop();
      for (const engine of engines) await engine.stop();
    });
    const input = [user(LONG)];
    const ask = () => gateway.post("/v1/responses", { model: "svc-qwen", store: false, input });
    expect((await ask()).status).toBe(200);
    isFull = true;
    input.push(user("go on"));
    expect((await ask()).status).toBe(200);
    const seen = engines.map(({ backend }) => backend.requests.map(({ messages }) => messages.length));
    expect(seen.sort((a, b) => b.length - a.length)).toEqual([[1, 2], [2]]);
  });
});
