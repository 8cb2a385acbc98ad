import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Endpoint } from "../../gateway/upstream/endpoint/endpoint.ts";
import { UpstreamTls } from "../../gateway/upstream/endpoint/upstream-tls.ts";
import type { WireCall, WireEnd } from "../../gateway/upstream/wire/generate-wire.ts";
import { HandOver } from "../../gateway/upstream/wire/hand-over.ts";
import { becomes } from "../support/becomes.ts";
import { Certificates, HAS_OPENSSL } from "../support/certificates.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/* Both wires against a server of grpc-go, an HTTP/2 implementation of its own. */

const SOURCE = join(import.meta.dirname, "../support/go-server");
/** The same as for the other Go program, so that its build cache is used. */
const FLAGS = ["-gcflags=all=-N -l", "-ldflags=-s -w"];
const hasGo = spawnSync("go", ["version"]).status === 0;

const folder = mkdtempSync(join(tmpdir(), "svc-go-"));
const program = join(folder, "server");
const certificates = new Certificates();
const closing: (() => void)[] = [];

beforeAll(async () => {
  if (!hasGo) return;
  await promisify(execFile)("go", ["build", ...FLAGS, "-o", program, "."], { cwd: SOURCE, timeout: 240_000 });
  if (!HAS_OPENSSL) return;
  certificates.authority("authority");
  certificates.signed("node", "authority");
}, 300_000);
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});
afterAll(() => {
  certificates.remove();
  rmSync(folder, { recursive: true, force: true });
});

async function server(...files: readonly string[]): Promise<{ readonly port: string; readonly child: ChildProcess }> {
  const child = spawn(program, files, { stdio: ["pipe", "pipe", "inherit"] });
  closing.push(() => child.kill("SIGKILL"));
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return { port: String(line).split(":").at(-1) ?? "", child };
}

type Play = {
  readonly Messages?: readonly string[];
  readonly Times?: number;
  readonly PauseMs?: number;
  readonly Code?: number;
  readonly Details?: string;
  readonly Stays?: boolean;
  readonly Leaves?: boolean;
  readonly Padding?: string;
};

type Kind = "grpc" | "fast";

function endpointOf(wire: Kind, port: string): Endpoint {
  const endpoint = new Endpoint(`127.0.0.1:${port}`, undefined, wire);
  closing.push(() => endpoint.close());
  return endpoint;
}

function send({ wire, handOvers }: Endpoint, play: Play, timeoutMs = 60_000) {
  const message = Buffer.from(JSON.stringify(play));
  const handOver = new HandOver({ lane: handOvers, tenant: "t", bytes: message.length });
  const texts: string[] = [];
  let call: WireCall | undefined;
  const ended = new Promise<WireEnd>((resolve) => {
    call = wire.open(
      { message, headers: {}, deadline: Date.now() + timeoutMs, handOver },
      { message: (bytes, from, to) => texts.push(bytes.toString("utf8", from, to)), ended: resolve },
    );
  });
  const outcome = ended.then(({ error }) => (error ? `${error.code} ${error.details}` : "OK"));
  return { texts, ended, outcome, call: () => call };
}

const messages = (...texts: readonly string[]) => texts.map((text) => Buffer.from(text).toString("base64"));
const HELLO: Play = { Messages: messages("Hello", "", "there") };

describe.skipIf(!hasGo).each(["grpc", "fast"] as const)("grpc-go over %s", (wire) => {
  test("a whole answer, with a deadline and trailers", async () => {
    const { texts, ended } = send(endpointOf(wire, (await server()).port), HELLO);
    const { error, trailers } = await ended;
    expect([error, texts]).toEqual([undefined, ["Hello", "", "there"]]);
    expect(trailers.get("has-deadline")).toEqual(["true"]);
  });

  test("a refusal at once, and one behind messages, with their words", async () => {
    const endpoint = endpointOf(wire, (await server()).port);
    const refusal = { Code: 8, Details: "100 % full, \u00e9" };
    expect(await send(endpoint, refusal).outcome).toBe("8 100 % full, \u00e9");
    const late = send(endpoint, { ...HELLO, ...refusal });
    expect([await late.outcome, late.texts.length]).toEqual(["8 100 % full, \u00e9", 3]);
  });

  test("the server sees cancelled calls and expired deadlines", async () => {
    const endpoint = endpointOf(wire, (await server()).port);
    const stays = { ...HELLO, Stays: true };
    const one = send(endpoint, stays);
    await until(() => one.texts.length === 3, "the answer begins");
    one.call()?.cancel();
    expect(await one.outcome).toMatch(/^1 /);
    // Both sides enforce the deadline: either may end first.
    expect(await send(endpoint, stays, 500).outcome).toMatch(/^[14] /);
    await becomes(
      async () => (await send(endpoint, HELLO).ended).trailers.get("left")[0] === "2",
      "the server knows of both",
    );
  });

  test("a request that is larger than all windows, and more calls than the server takes at once", async () => {
    const endpoint = endpointOf(wire, (await server()).port);
    const large = send(endpoint, { ...HELLO, Padding: "x".repeat(3_000_000) });
    const many = Array.from({ length: 50 }, () => send(endpoint, { ...HELLO, PauseMs: 20 }));
    const outcomes = await Promise.all([large, ...many].map(({ outcome }) => outcome));
    expect(new Set(outcomes)).toEqual(new Set(["OK"]));
  });

  test("a long answer is read whole by one reader while another does not read", async () => {
    const endpoint = endpointOf(wire, (await server()).port);
    const long = { Messages: messages("x".repeat(1_000)), Times: 5_000 };
    const slow = send(endpoint, long);
    await until(() => slow.texts.length > 0, "the answer begins");
    slow.call()?.pause();
    const fast = send(endpoint, long);
    expect([await fast.outcome, fast.texts.length]).toEqual(["OK", 5_000]);
    expect(slow.texts.length).toBeLessThan(5_000);
    slow.call()?.resume();
    expect([await slow.outcome, slow.texts.length]).toEqual(["OK", 5_000]);
  });

  test("a server that leaves brings its answers to their end, and its address is tried again", async () => {
    const endpoint = endpointOf(wire, (await server()).port);
    const last = send(endpoint, { ...HELLO, PauseMs: 300, Leaves: true });
    expect([await last.outcome, last.texts]).toEqual(["OK", ["Hello", "", "there"]]);
    expect(await send(endpoint, HELLO).outcome).toMatch(/^14 /);
  });

  test("a grpc-go server with TLS answers over the wire", async ({ skip }) => {
    skip(!HAS_OPENSSL, "openssl makes the certificates");
    const { port } = await server(certificates.file("node.pem"), certificates.file("node.key"));
    const settings = { caFile: certificates.file("authority.pem") };
    const tls = new UpstreamTls({ settings, path: "tls", clock: new VirtualClock(), onReload() {} });
    closing.push(() => tls.close());
    const secured = { credentials: tls.credentials, pems: () => tls.pems, serverName: "localhost" };
    const endpoint = new Endpoint(`127.0.0.1:${port}`, secured, wire);
    closing.push(() => endpoint.close());
    const { outcome, texts } = send(endpoint, HELLO);
    expect([await outcome, texts.length]).toEqual(["OK", 3]);
  });
});
