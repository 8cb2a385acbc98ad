import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { AdminToken, openAdminTls } from "../../../gateway/http/admin/admin-access.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";

/* The admin port with TLS. A name in `Host` stands for another machine, which needs the same proof. */

const certificates = new Certificates();
const file = (name: string) => certificates.file(name);
const TOKEN = "the-first-token-of-this-test";
const closing: (() => unknown)[] = [];
const reloads: (string | undefined)[] = [];
let service: ScriptedService;
let admin: RunningAdmin;

beforeAll(async () => {
  if (!HAS_OPENSSL) return;
  for (const name of ["authority", "stranger"]) certificates.authority(name);
  for (const name of ["first", "second", "operator"]) certificates.signed(name, "authority");
  certificates.signed("intruder", "stranger");
  certificates.show("first");
  writeFileSync(file("token"), `${TOKEN}\n`, { mode: 0o600 });
  service = await startScriptedService();
  const files = { certFile: file("live.pem"), keyFile: file("live.key"), clientCaFile: file("authority.pem") };
  const tls = openAdminTls(files, systemClock, (fault) => reloads.push(fault));
  const token = await AdminToken.open(file("token"), systemClock, () => {});
  admin = await startAdmin(service.gateway, {}, { tls, proof: { token, certificates: true } });
  closing.push(
    () => tls.close(),
    () => token.close(),
    () => service.stop(),
    () => admin.stop(),
  );
});

afterAll(async () => {
  for (const close of closing.reverse()) await close();
  certificates.remove();
});

async function ask(path: string, who?: string, headers: Record<string, string> = {}) {
  const sent = request(`${admin.url}${path}`, { ...certificates.client(who), agent: false, headers });
  let shown: string | undefined;
  sent.on("socket", (socket) =>
    socket.once("secureConnect", () => {
      if ("getPeerCertificate" in socket && typeof socket.getPeerCertificate === "function")
        shown = socket.getPeerCertificate().subject.CN;
    }),
  );
  const [reply] = (await once(sent.end(), "response")) as [IncomingMessage];
  reply.resume();
  await once(reply, "end");
  return { status: reply.statusCode, shown };
}

const NAMED = { host: "gateway.example" };

test.skipIf(!HAS_OPENSSL)(`certificates and tokens grant access, and health is public (${NO_OPENSSL})`, async () => {
  expect((await ask("/server_info", undefined, NAMED)).status).toBe(403);
  expect((await ask("/readyz", undefined, NAMED)).status).toBe(200);
  expect((await ask("/server_info", "operator", NAMED)).status).toBe(200);
  expect((await ask("/server_info", "intruder", NAMED)).status).toBe(403);
  const bearer = { ...NAMED, authorization: `Bearer ${TOKEN}` };
  expect((await ask("/server_info", undefined, bearer)).status).toBe(200);
});

test.skipIf(!HAS_OPENSSL)(`a renewed certificate and a new token count from then on (${NO_OPENSSL})`, async () => {
  certificates.show("second");
  await becomes(async () => (await ask("/healthz")).shown === "second", "the new certificate is shown");
  expect(reloads).toContain(undefined);
  const status = async (token: string) =>
    (await ask("/server_info", undefined, { ...NAMED, authorization: `Bearer ${token}` })).status;
  writeFileSync(file("token"), "short");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(await status(TOKEN)).toBe(200);
  writeFileSync(file("token"), "the-second-token-of-this-test");
  await becomes(async () => (await status("the-second-token-of-this-test")) === 200, "the new token counts");
  expect(await status(TOKEN)).toBe(403);
});
