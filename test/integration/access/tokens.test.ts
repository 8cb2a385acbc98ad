import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { tokensSchema } from "../../../gateway/keys/key-settings.ts";
import { TokenVerifier } from "../../../gateway/keys/tokens/token-verifier.ts";
import { becomes } from "../../support/becomes.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { keyCommand } from "../../support/processes/key-command.ts";

const ISSUER = "https://issuer.example";
const AUDIENCE = "svc";

let folder: string;
let gateway: RunningGateway;
let keyId: string;
const ours = await generateKeyPair("ES256");
const others = await generateKeyPair("ES256");

async function jwk(pair: typeof ours, kid: string) {
  return { ...(await exportJWK(pair.publicKey)), kid, alg: "ES256", use: "sig" };
}

type Change = { readonly kid?: string; readonly pair?: typeof ours; readonly expires?: string | number };

/** A token that is valid except for the changed parts. */
function token(claims: JWTPayload = {}, { kid = "one", pair = ours, expires = "10m" }: Change = {}): Promise<string> {
  return new SignJWT({ svc_key: keyId, sub: "ada", aud: AUDIENCE, iss: ISSUER, ...claims })
    .setProtectedHeader({ alg: "ES256", kid })
    .setExpirationTime(expires)
    .sign(pair.privateKey);
}

function ask(text: string): Promise<Response> {
  return gateway.get("/v1/models", { authorization: `Bearer ${text}` });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "svc-tokens-"));
  const jwksFile = join(folder, "jwks.json");
  writeFileSync(jwksFile, JSON.stringify({ keys: [await jwk(ours, "one")] }));
  gateway = await startGateway([], { auth: { jwt: { issuer: ISSUER, audience: [AUDIENCE], jwksFile } } });
  keyId = (await gateway.createKey("--name", "people", "--models", "all", "--rpm", "1000")).split("_")[2] ?? "";
  await becomes(async () => gateway.keys.byId(keyId) !== undefined, "the key is known");
});

afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true });
});

test("a token has the rights and limits of the record that it names, besides keys", async () => {
  const response = await ask(await token());
  expect(response.status).toBe(200);
  expect(response.headers.get("x-ratelimit-limit-requests")).toBe("1000");
  expect((await ask(gateway.key)).status).toBe(200);
});

test("D14 an invalid token counts as a wrong key", async () => {
  const wrong = {
    "the signature is of another key": await token({}, { pair: others }),
    "the key is not known": await token({}, { pair: others, kid: "two" }),
    "it is unsigned": new UnsecuredJWT({ svc_key: keyId, iss: ISSUER, aud: AUDIENCE })
      .setExpirationTime("10m")
      .encode(),
    "it is signed by a secret": await new SignJWT({ svc_key: keyId, iss: ISSUER, aud: AUDIENCE })
      .setProtectedHeader({ alg: "HS256", kid: "one" })
      .setExpirationTime("10m")
      .sign(new TextEncoder().encode(JSON.stringify(await jwk(ours, "one")))),
    "the issuer is another": await token({ iss: "https://another.example" }),
    "it is for others": await token({ aud: "others" }),
    "it has ended": await token({}, { expires: Math.floor(Date.now() / 1_000) - 60 }),
    "it never ends": await new SignJWT({ svc_key: keyId, iss: ISSUER, aud: AUDIENCE })
      .setProtectedHeader({ alg: "ES256", kid: "one" })
      .sign(ours.privateKey),
    "it lasts too long": await token({}, { expires: "3d" }),
    "it names no record": await token({ svc_key: undefined }),
    "it names a record that is not there": await token({ svc_key: "unknown" }),
    "the claim is no text": await token({ svc_key: [keyId] }),
    "it is too large": await token({ more: "x".repeat(4_000) }),
    "it is changed": (await token()).replace(/.(?=.{20}$)/, (one) => (one === "A" ? "E" : "A")),
  };
  const plain = await (await ask("svc_live_unknown")).json();
  for (const [what, text] of Object.entries(wrong)) {
    const response = await ask(text);
    expect(response.status, what).toBe(401);
    expect(await response.json(), what).toEqual(plain);
  }
});

test("D14 a token that was seen before ends with the record, and with its own time", async () => {
  const other = (await gateway.createKey("--name", "builds", "--models", "all")).split("_")[2] ?? "";
  await becomes(async () => gateway.keys.byId(other) !== undefined, "the key is known");
  const [seen, short] = [
    await token({ svc_key: other }),
    await token({}, { expires: Math.floor(Date.now() / 1_000) - 28 }),
  ];
  expect((await ask(seen)).status).toBe(200);
  expect((await ask(short)).status).toBe(200);
  await keyCommand(gateway.keyFile, "disable", other);
  await becomes(async () => (await ask(seen)).status === 401, "the record is disabled");
  await becomes(async () => (await ask(short)).status === 401, "the token has ended, leeway included");
});

test("a type of token that is required keeps all others out", async () => {
  const jwksFile = join(folder, "jwks.json");
  const typed = (typ?: string) =>
    new SignJWT({ svc_key: keyId, aud: AUDIENCE, iss: ISSUER })
      .setProtectedHeader({ alg: "ES256", kid: "one", ...(typ !== undefined && { typ }) })
      .setExpirationTime("10m")
      .sign(ours.privateKey);
  for (const requiredType of ["at+jwt", "application/AT+jwt"]) {
    const jwt = { issuer: ISSUER, audience: [AUDIENCE], jwksFile, requiredType };
    const settings = tokensSchema.parse(jwt);
    const verifier = await TokenVerifier.open({ settings, keys: gateway.keys, clock: systemClock, onReload: () => {} });
    for (const typ of ["at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"])
      expect((await verifier.find(await typed(typ)))?.keyId, typ).toBe(keyId);
    for (const typ of [undefined, "JWT", "id+jwt", "at+jwt2", "text/at+jwt", ""])
      expect(await verifier.find(await typed(typ)), typ).toBeUndefined();
    verifier.close();
  }
});

test("an issuer's keys are reloaded from their address after changes, within the rate limit", async () => {
  let keys = [await jwk(ours, "one")];
  let reads = 0;
  const server: Server = createServer((_request, response) => {
    reads += 1;
    response.end(JSON.stringify({ keys }));
  }).listen(0);
  let nowMs = 0;
  const clock = { ...systemClock, nowMs: () => nowMs };
  const { port } = server.address() as AddressInfo;
  const jwksUrl = `http://127.0.0.1:${port}`;
  const settings = tokensSchema.parse({ issuer: ISSUER, audience: [AUDIENCE], jwksUrl, subjectIsTenant: true });
  const verifier = await TokenVerifier.open({ settings, keys: gateway.keys, clock, onReload: () => {} });
  const seen = await token();
  const ada = await verifier.find(seen);
  const grace = await verifier.find(await token({ sub: "grace" }));
  expect(ada?.keyId).toBe(keyId);
  expect(grace?.keyId).toBe(keyId);
  expect(new Set([ada?.tenant, grace?.tenant, gateway.keys.byId(keyId)?.tenant]).size).toBe(3);
  expect(ada?.tenant).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(ada?.cacheSalt).not.toBe(grace?.cacheSalt);
  keys = [await jwk(others, "two")];
  const newer = await token({}, { pair: others, kid: "two" });
  expect(await verifier.find(newer)).toBeUndefined();
  expect(await verifier.find(seen)).toBeDefined();
  expect(reads).toBe(1);
  nowMs = 30_000;
  const all = Array.from({ length: 20 }, () => verifier.find(newer));
  expect((await Promise.all(all)).every((principal) => principal?.keyId === keyId)).toBe(true);
  // Its key was withdrawn.
  expect(await verifier.find(seen)).toBeUndefined();
  for (let at = 0; at < 5; at += 1) await verifier.find(await token({ at }, { kid: `made-up-${at}` }));
  expect(reads).toBe(2);
  // An issuer that is down removes no keys.
  server.closeAllConnections();
  server.close();
  nowMs = 90_000;
  expect(await verifier.find(await token({}, { kid: "three" }))).toBeUndefined();
  expect(await verifier.find(await token({ again: 1 }, { pair: others, kid: "two" }))).toBeDefined();
  verifier.close();
});
