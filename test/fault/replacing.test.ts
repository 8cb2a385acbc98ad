import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../support/certificates.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf, foldedText, textOf } from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import { Fleet, healthy, show, size } from "../support/processes/fleet.ts";
import type { GatewayProcess } from "../support/processes/gateway-process.ts";

/*
 * Everything around the answers is replaced while clients of all formats read streams and send new requests: none of
 * these may fail. The gateways behind Envoy: test/fault/edge/rolling.test.ts. The nodes:
 * test/fault/continuation.test.ts.
 */

const CLIENTS = size(3, 40);
const ROUNDS = size(1, 10);
/** Nodes of a fleet if one is as good as several. */
const NODES = size(1, 2);
/** Answers of about a second, longer than the detection of any change. */
const ANSWERS = { tokensPerSecond: 60, answerTokens: { min: 50, max: 80 }, slots: 64 };

const fleet = new Fleet();

type Answer = {
  readonly path: AnswerPath;
  readonly prompt: string;
  readonly status: number;
  readonly end: string;
  readonly text: string | undefined;
};

/** Sends a request, and reads its answer to the end. */
async function ask(gateway: GatewayProcess, path: AnswerPath, prompt: string, stream: boolean): Promise<Answer> {
  const response = await gateway.post(path, bodyFor(path, prompt, { stream, temperature: 0 }));
  const { text, cut } = await readBody(response).toEndOrCut();
  const { status } = response;
  if (stream && status === 200)
    return { path, prompt, status, end: endOf(path, text, cut).end, text: textOf(path, text) };
  return { path, prompt, status, end: status === 200 && !cut ? "complete" : "failed", text: foldedText(path, text) };
}

class Clients {
  readonly answers: Answer[] = [];
  readonly #all: Promise<unknown>;
  #over = false;

  constructor(gateway: GatewayProcess) {
    const client = async (index: number) => {
      for (let turn = 0; !this.#over; turn += 1) {
        const path = ANSWER_PATHS[(index + turn) % 3] ?? "/v1/messages";
        const prompt = `client ${index} turn ${turn}`;
        const failed = (error: unknown) => ({ path, prompt, status: 0, end: String(error), text: "" });
        this.answers.push(await ask(gateway, path, prompt, index % 3 !== 2).catch(failed));
      }
    };
    this.#all = Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
  }

  async goOn(more = 1): Promise<void> {
    const wanted = this.answers.length + more * CLIENTS;
    await becomes(async () => this.answers.length >= wanted, "the clients get answers");
  }

  async expectAllWell(what: string): Promise<readonly Answer[]> {
    this.#over = true;
    await this.#all;
    const failed = this.answers.filter(({ end }) => end !== "complete");
    show(what, { clients: CLIENTS, rounds: ROUNDS, answers: this.answers.length, failed: failed.length });
    expect(failed).toEqual([]);
    return this.answers;
  }
}

test("engines move to other addresses, by the file of endpoints", async () => {
  const file = fleet.endpointFile();
  let nodes = await fleet.engines(NODES, ANSWERS);
  file.list(nodes);
  const gateway = await fleet.gateway({ type: "file", path: file.path });
  for (const { address } of nodes) await healthy(gateway, address);
  const clients = new Clients(gateway);
  await clients.goOn();
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = await fleet.engines(NODES, ANSWERS);
    file.list([...nodes, ...next]);
    for (const { address } of next) await healthy(gateway, address);
    file.list(next);
    for (const { address } of nodes)
      await becomes(async () => (await gateway.health(address)) === undefined, "it has left");
    expect(await Promise.all(nodes.map((node) => node.stop()))).toEqual(nodes.map(() => 0));
    await clients.goOn();
    nodes = next;
  }
  await clients.expectAllWell("addresses of engines");
});

test("the model changes its revision, which both halves serve for a while: no answer is of two", async () => {
  const revision = (seed: number) => ({ ...ANSWERS, seed });
  const older = await fleet.engines(2, revision(1));
  const newer = await fleet.engines(2, revision(2));
  const both = await fleet.inFrontOf([...older, ...newer], { lbPolicy: "round_robin" });
  const clients = new Clients(both);
  await clients.goOn();
  const continued = () => both.stat("svc_continuations_total", 'outcome="went_on"');
  // One of each half is lost, at work: its answers continue in the same half, if they have begun.
  for (let round = 0; round < 10 && (round === 0 || (await continued()) === 0); round += 1)
    for (const [lost] of [older, newer]) {
      await becomes(async () => ((await lost?.busy()) ?? 0) > 0, "it works");
      await lost?.kill();
      await clients.goOn();
      await lost?.startAgain();
      await healthy(both, lost?.address ?? "");
    }
  // The last answers of the old revision have no other node: they complete.
  for (const { address } of older)
    expect((await fetch(`${both.adminUrl}/endpoint/${address}/drain`, { method: "POST" })).status).toBe(200);
  for (const node of older) await becomes(async () => (await node.busy()) === 0, "its answers have ended");
  expect(await older[1]?.stop()).toBe(0);
  await clients.goOn();
  expect(await continued()).toBeGreaterThan(0);
  const answers = await clients.expectAllWell("revision of the model");
  // The undisturbed answers of each revision.
  const halves = await Promise.all([older, newer].map(([node]) => fleet.inFrontOf(node ? [node] : [])));
  const seen = [0, 0];
  const judge = async ({ path, prompt, text }: Answer) => {
    const wholes = await Promise.all(halves.map((half) => ask(half, path, prompt, true)));
    const half = wholes.findIndex((whole) => whole.text === text);
    expect(half, `${path} ${prompt}`).not.toBe(-1);
    seen[half] = (seen[half] ?? 0) + 1;
  };
  for (let at = 0; at < answers.length; at += 50) await Promise.all(answers.slice(at, at + 50).map(judge));
  expect(Math.min(...seen)).toBeGreaterThan(0);
});

test.skipIf(!HAS_OPENSSL)(
  `certificates of nodes and gateway are replaced, and their authority (${NO_OPENSSL})`,
  async () => {
    const files = new Certificates();
    fleet.onEnd(() => files.remove());
    const put = (name: string, from: string) => {
      for (const kind of ["key", "pem"]) {
        chmodSync(files.file(`${from}.${kind}`), 0o600);
        renameSync(files.file(`${from}.${kind}`), files.file(`${name}.${kind}`));
      }
    };
    const issue = (authority: string) => {
      for (const name of ["node", "gateway"]) {
        files.signed(`next-${name}`, authority, "IP:127.0.0.1");
        put(name, `next-${name}`);
      }
    };
    const of = (name: string) => ({ certFile: files.file(`${name}.pem`), keyFile: files.file(`${name}.key`) });
    files.authority("old");
    files.authority("new");
    const trust = (...names: readonly string[]) => {
      writeFileSync(
        files.file("next.pem"),
        names.map((name) => readFileSync(files.file(`${name}.pem`), "utf8")).join(""),
      );
      renameSync(files.file("next.pem"), files.file("trusted.pem"));
    };
    trust("old");
    issue("old");
    const tls = { ...of("node"), clientCaFile: files.file("trusted.pem") };
    const nodes = await Promise.all([0, 1].map((at) => fleet.engine(`node${at}`, ANSWERS, ["svc-qwen"], { tls })));
    const gateway = await fleet.inFrontOf(nodes, { tls: { caFile: files.file("trusted.pem"), ...of("gateway") } });
    const clients = new Clients(gateway);
    await clients.goOn();
    const loads = () => gateway.process.log.filter(({ msg }) => String(msg).startsWith("certificates loaded")).length;
    const steps = [() => trust("old", "new"), () => issue("new"), () => trust("new")];
    for (const [at, step] of steps.entries()) {
      const before = loads();
      step();
      await becomes(async () => loads() > before, "the gateway has the new files");
      // Open connections stay: only a restarted node has new ones.
      const node = nodes[at % nodes.length];
      expect(await node?.stop()).toBe(0);
      await node?.startAgain();
      await healthy(gateway, node?.address ?? "");
    }
    await clients.goOn();
    await clients.expectAllWell("certificates");
  },
);
