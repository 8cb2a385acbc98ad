import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";

const FILES = ["base.css", "try-it.css", "answer.js", "code.js", "dom.js", "formats.js", "talks.js", "try-it.js"];
const PATHS = ["/", ...FILES.map((file) => `/try-it/${file}`)];

let off: RunningGateway;
let on: RunningGateway;

beforeAll(async () => {
  off = await startGateway([]);
  on = await startGateway([], { tryIt: { hosts: ["Models.example"] } });
});
afterAll(async () => {
  await off.stop();
  await on.stop();
});

function statusUnder(path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(`${on.baseUrl}${path}`, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on("error", reject);
    asked.end();
  });
}

test.each(PATHS)("%s is there only where it was asked for", async (path) => {
  expect((await fetch(`${off.baseUrl}${path}`)).status).toBe(404);
  const reply = await fetch(`${on.baseUrl}${path}`);
  expect(reply.status).toBe(200);
  expect(reply.headers.get("cache-control")).toBe("no-store");
  expect(reply.headers.get("x-content-type-options")).toBe("nosniff");
  const policy = reply.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|\*|http/);
});

test.each(PATHS)("%s is not served under a name that an attacker can point here", async (path) => {
  for (const host of [
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "models.example.evil.example",
    "a b",
  ])
    expect(await statusUnder(path, host)).not.toBe(200);
  for (const host of ["127.0.0.1:1", "[::1]:8080", "localhost:8080", "MODELS.example:8443"])
    expect(await statusUnder(path, host)).toBe(200);
});

test("an agent's probe is answered as without the page, and the API still requires its key", async () => {
  expect((await fetch(`${on.baseUrl}/`, { method: "HEAD" })).status).toBe(200);
  expect((await fetch(`${on.baseUrl}/v1/models`)).status).toBe(401);
  expect((await fetch(`${on.baseUrl}/`, { method: "POST" })).status).toBe(404);
});

test("it holds no key of the service, writes nothing as markup and names no other origin", async () => {
  for (const path of PATHS) {
    const text = await (await fetch(`${on.baseUrl}${path}`)).text();
    expect(text).not.toContain(on.key);
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\son\w+=|eval\(|https?:\/\//);
    expect(text).not.toMatch(/localStorage|cookie/);
  }
});
