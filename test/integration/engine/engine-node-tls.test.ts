import { chmodSync, copyFileSync, readFileSync } from "node:fs";
import { type ConnectionOptions, connect, type SecureVersion } from "node:tls";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { followTls, type TlsFiles } from "../../../deploy/runtime/grpc/server-tls.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { clientOf, nodeOf } from "../../support/engine/node-rig.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

if (!HAS_OPENSSL) process.stderr.write(`skipping tests of TLS: ${NO_OPENSSL}\n`);
const withCertificates = test.skipIf(!HAS_OPENSSL);

let certificates: Certificates;
const file = (name: string) => certificates.file(name);
const pem = (name: string) => readFileSync(file(name));

beforeAll(() => {
  certificates = new Certificates();
  if (!HAS_OPENSSL) return;
  for (const name of ["authority", "stranger"]) certificates.authority(name);
  for (const name of ["node", "gateway", "renewed"]) certificates.signed(name, "authority");
  certificates.signed("intruder", "stranger");
  certificates.signed("spiffe", "authority", "URI:spiffe://cluster/gateway,DNS:gateway.svc");
});
afterAll(() => certificates.remove());

const NODE_FILES = () => ({ certFile: file("node.pem"), keyFile: file("node.key") });

/** The certificates of a node, with a virtual clock and their log. */
function followed(files: TlsFiles) {
  const clock = new VirtualClock();
  const logged: string[] = [];
  const log = pino({ base: null }, { write: (line) => logged.push(JSON.parse(line).msg) });
  const tls = followTls(files, clock, log);
  onTestFinished(() => tls.close());
  /** Resolves once there are `count` log lines. */
  const logs = (count: number) =>
    becomes(async () => {
      await clock.advance(500);
      return logged.length >= count;
    }, `${count} lines`);
  return { tls, clock, logged, logs };
}

function live(name: string): TlsFiles {
  for (const part of ["pem", "key"] as const) copyFileSync(file(`${name}.${part}`), file(`live.${part}`));
  return { certFile: file("live.pem"), keyFile: file("live.key") };
}

const byName = (address: string, channel: ChannelCredentials) =>
  clientOf(address.replace("127.0.0.1", "localhost"), channel);

async function startTls(clientCaFile?: string, allowedClientNames?: readonly string[]) {
  const { tls } = followed({ ...NODE_FILES(), clientCaFile });
  const { node } = await nodeOf(fastSimulator(), { tls, allowedClientNames });
  return (channel: ChannelCredentials) => byName(node.address, channel).generate(generateRequest()).ended;
}

async function clients(...given: Parameters<typeof startTls>) {
  const ended = await startTls(...given);
  return async (channel: ChannelCredentials) => (await ended(channel)).code;
}

const shows = (name: string) => credentials.createSsl(pem("authority.pem"), pem(`${name}.key`), pem(`${name}.pem`));

withCertificates("with a client authority only callers with its certificate are served", async () => {
  const codeFor = await clients(file("authority.pem"));
  expect(await codeFor(shows("gateway"))).toBe(0);
  expect(await codeFor(shows("intruder"))).toBe(14);
  expect(await codeFor(credentials.createSsl(pem("authority.pem")))).toBe(14);
  expect(await codeFor(credentials.createInsecure())).toBe(14);
});

withCertificates("without a client authority every TLS caller is served, and none in plain text", async () => {
  const codeFor = await clients();
  expect(await codeFor(credentials.createSsl(pem("authority.pem")))).toBe(0);
  expect(await codeFor(credentials.createSsl(pem("stranger.pem")))).toBe(14);
  expect(await codeFor(credentials.createInsecure())).toBe(14);
});

withCertificates("files that are missing or do not match stop the start with their key", () => {
  const [certFile, keyFile] = [file("node.pem"), file("node.key")];
  expect(() => followed({ certFile: file("none.pem"), keyFile })).toThrow("tls.certFile: cannot be read");
  expect(() => followed({ certFile, keyFile: file("none.key") })).toThrow("tls.keyFile: cannot be read");
  chmodSync(keyFile, 0o644);
  expect(() => followed({ certFile, keyFile })).toThrow("tls.keyFile: is open to other users");
  chmodSync(keyFile, 0o600);
  expect(() => followed({ certFile, keyFile, clientCaFile: file("none.pem") })).toThrow("tls.clientCaFile: cannot");
  expect(() => followed({ certFile, keyFile: file("gateway.key") })).toThrow("do not fit");
});

withCertificates(
  "with a list of names only certificates with one of them are served, from any trusted authority",
  async () => {
    const codeFor = await clients(file("authority.pem"), ["gateway"]);
    expect(await codeFor(shows("gateway"))).toBe(0);
    expect(await codeFor(shows("renewed"))).toBe(7);
    expect(await codeFor(shows("spiffe"))).toBe(7);
    expect(await codeFor(shows("intruder"))).toBe(14);
    for (const name of ["spiffe://cluster/gateway", "gateway.svc"]) {
      const ended = await startTls(file("authority.pem"), [name]);
      expect((await ended(shows("spiffe"))).code).toBe(0);
      expect(await ended(shows("gateway"))).toMatchObject({ code: 7, info: { reason: "CALLER_NOT_ALLOWED" } });
    }
  },
);

/** Resolves to the protocol and the certificate's name of a new connection, or to `refused`. */
function connected(
  address: string,
  options: ConnectionOptions = {},
): Promise<readonly [protocol: string, name: string]> {
  return new Promise((resolve) => {
    const port = Number(address.split(":").at(-1));
    const socket = connect({ host: "localhost", port, ca: pem("authority.pem"), ALPNProtocols: ["h2"], ...options });
    socket.on("error", () => resolve(["refused", ""]));
    socket.on("secureConnect", () => {
      resolve([String(socket.getProtocol()), String(socket.getPeerCertificate().subject.CN)]);
      socket.destroy();
    });
  });
}

const protocolOf = async (address: string, maxVersion: SecureVersion) =>
  (await connected(address, { minVersion: "TLSv1", maxVersion, ciphers: "DEFAULT@SECLEVEL=0" }))[0];
const shownName = async (address: string) => (await connected(address))[1];

withCertificates("protocols before TLS 1.2 are refused, also after a renewal", async () => {
  const { tls, logs } = followed(live("node"));
  const { node } = await nodeOf(fastSimulator(), { tls });
  const versions = async () => {
    const found = [];
    for (const version of ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"] as const)
      found.push(await protocolOf(node.address, version));
    return found;
  };
  const expected = ["refused", "refused", "TLSv1.2", "TLSv1.3"];
  expect(await versions()).toEqual(expected);
  live("renewed");
  await logs(1);
  expect(await versions()).toEqual(expected);
});

withCertificates("renewed files apply to new connections once they match; old connections continue", async () => {
  copyFileSync(file("authority.pem"), file("live-ca.pem"));
  const { tls, clock, logged, logs } = followed({ ...live("node"), clientCaFile: file("live-ca.pem") });
  const { node } = await nodeOf(fastSimulator(), { tls });
  const old = byName(node.address, shows("gateway"));
  expect((await old.generate(generateRequest()).ended).code).toBe(0);

  const names = [await shownName(node.address)];
  copyFileSync(file("renewed.pem"), file("live.pem"));
  await logs(1);
  names.push(await shownName(node.address));
  copyFileSync(file("renewed.key"), file("live.key"));
  await logs(2);
  names.push(await shownName(node.address));
  expect(names).toEqual(["node", "node", "renewed"]);
  expect(logged).toEqual(["TLS files are unusable; the last good ones stay in use", "TLS files reloaded"]);
  expect((await old.generate(generateRequest()).ended).code).toBe(0);

  // Another authority: callers of the old one are no longer accepted.
  copyFileSync(file("stranger.pem"), file("live-ca.pem"));
  await logs(3);
  const late = byName(node.address, shows("gateway"));
  expect((await late.generate(generateRequest()).ended).code).toBe(14);
  tls.close();
  live("node");
  await clock.advance(10_000);
  expect(await shownName(node.address)).toBe("renewed");
});
