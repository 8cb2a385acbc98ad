import { afterEach, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { metricSum } from "../../support/metric-text.ts";

/** The requests without a valid key that one address may send in a minute with its connection kept. */
const MOST = 20;

let gateway: RunningGateway | undefined;

afterEach(() => gateway?.stop());

async function gatewayWith(config: Readonly<Record<string, unknown>>): Promise<RunningGateway> {
  gateway = await startGateway([], config);
  return gateway;
}

type Refusal = { readonly status: number; readonly body: string; readonly connection: string | null };

async function fail(to: RunningGateway, headers: Record<string, string> = {}): Promise<Refusal> {
  const response = await to.get("/v1/models", { authorization: "Bearer unknown", ...headers });
  return { status: response.status, body: await response.text(), connection: response.headers.get("connection") };
}

/** Fails as often as one address may in a minute, but for once. */
async function failUntilLast(to: RunningGateway, forwardedFor: string): Promise<void> {
  for (let at = 1; at < MOST; at += 1) await fail(to, { "x-forwarded-for": forwardedFor });
}

test("too many wrong keys from one address get the same reply and a closed connection; a valid key is served", async () => {
  const to = await gatewayWith({});
  const replies: Refusal[] = [];
  for (let at = 0; at < MOST + 3; at += 1) replies.push(await fail(to));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([401]));
  expect(new Set(replies.map(({ body }) => body)).size).toBe(1);
  expect(replies.map(({ connection }) => connection)).toEqual([
    ...Array(MOST).fill("keep-alive"),
    ...Array(3).fill("close"),
  ]);
  expect((await to.get("/v1/models")).status).toBe(200);
  const metrics = await to.stats.registry.metrics();
  expect(metricSum(metrics, "svc_auth_failures_total", 'reason="auth_failures_exceeded"')).toBe(3);
  expect(metricSum(metrics, "svc_auth_failures_total", 'reason="api_key_malformed"')).toBe(0);
  expect(metricSum(metrics, "svc_auth_failures_total", 'reason="api_key_invalid"')).toBe(MOST);
  expect(metricSum(metrics, "svc_ratelimit_decisions_total", 'decision="refused"')).toBe(0);
});

test("an untrusted x-forwarded-for has no effect", async () => {
  const to = await gatewayWith({});
  await failUntilLast(to, "192.0.2.1");
  await fail(to);
  expect((await fail(to, { "x-forwarded-for": "192.0.2.2" })).connection).toBe("close");
});

test("behind a trusted proxy each client counts separately, an IPv6 network as one", async () => {
  const to = await gatewayWith({ xffNumTrustedHops: 1 });
  const from = async (address: string) => (await fail(to, { "x-forwarded-for": address })).connection;
  expect(await from("192.0.2.1")).toBe("keep-alive");
  await failUntilLast(to, "spoofed, 192.0.2.2");
  expect(await from("spoofed, 192.0.2.2")).toBe("keep-alive");
  expect(await from("other, 192.0.2.2")).toBe("close");
  await failUntilLast(to, "2001:db8::2");
  expect(await from("2001:db8::1")).toBe("keep-alive");
  expect(await from("2001:db8::ffff:1")).toBe("close");
});
