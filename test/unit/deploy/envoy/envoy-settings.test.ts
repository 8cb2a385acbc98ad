import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { checkConfig, loadConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";
import { PING_MS } from "../../../../gateway/http/websocket/response-socket.ts";

/* Settings on which the shipped Envoy and a gateway with defaults must agree. */

const ROOT = join(import.meta.dirname, "../../../..");
const text = readFileSync(join(ROOT, "deploy/envoy/envoy.yaml"), "utf8");
const seconds = z.string().transform((value) => Number(value.replace(/s$/, "")) * 1_000);

const shipped: { readonly name: string }[] = parse(text).static_resources.clusters;
const withoutAdmin = shipped.filter(({ name }) => name !== "admin");

const { static_resources: edge } = z
  .object({
    static_resources: z.object({
      clusters: z.array(
        z.object({
          name: z.string(),
          transport_socket: z
            .object({ typed_config: z.object({ sni: z.string(), common_tls_context: z.unknown() }) })
            .optional(),
          health_checks: z.tuple([
            z.object({
              timeout: seconds,
              interval: seconds,
              interval_jitter: seconds,
              unhealthy_threshold: z.number(),
            }),
          ]),
        }),
      ),
    }),
  })
  .parse({ static_resources: { clusters: withoutAdmin } });
const gateway = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [] }, "test");

const BEHIND = ["deploy/compose/config/gateway.yaml", "deploy/kubernetes/gateway/gateway.yaml"];

/** The first duration with this name in the configuration, in milliseconds. */
const durationOf = (name: string) => Number(new RegExp(`\\b${name}: ([\\d.]+)s`).exec(text)?.[1]) * 1_000;

test("a gateway serves on for longer than Envoy may take to notice that it ends", () => {
  expect(edge.clusters.length).toBe(2);
  for (const { health_checks } of edge.clusters) {
    const [{ timeout, interval, interval_jitter: jitter, unhealthy_threshold: failures }] = health_checks;
    expect(gateway.drainGraceMs).toBeGreaterThan(failures * (interval + jitter + timeout));
  }
});

test("the edge itself serves on for as long after SIGTERM", () => {
  const script = readFileSync(join(ROOT, "deploy/envoy/edge.sh"), "utf8");
  expect(Number(/^GRACE_S=(\d+)$/m.exec(script)?.[1]) * 1_000).toBe(gateway.drainGraceMs);
});

test("the edge asks the gateways at the port of their health", () => {
  const script = readFileSync(join(ROOT, "deploy/envoy/edge.sh"), "utf8");
  const asked = Number(/^GATEWAY_HEALTH=(\d+)$/m.exec(script)?.[1]);
  expect([...text.matchAll(/health_check_config: { port_value: (\d+) }/g)].map(([, port]) => Number(port))).toEqual([
    asked,
    asked,
  ]);
  expect(BEHIND.map((file) => loadConfig(gatewayConfigSchema, join(ROOT, file)).health?.port)).toEqual([asked, asked]);
});

test("no stream and no answer in one piece is silent for as long as Envoy waits", () => {
  const { timeouts } = gateway;
  expect(durationOf("stream_idle_timeout")).toBeGreaterThan(2 * timeouts.keepAliveIntervalMs);
  const waits = [...text.matchAll(/cluster: gateways\w*\s+timeout: 0s\s+idle_timeout: (\d+)s/g)].map(([, s]) =>
    Number(s),
  );
  expect(waits).toEqual([930, 75, 930]);
  // One ping may be lost.
  expect(75_000).toBeGreaterThan(2 * PING_MS);
  expect(930_000).toBeGreaterThan(timeouts.maxRequestDurationMs);
  expect(durationOf("request_timeout")).toBeGreaterThan(timeouts.requestTimeoutMs);
});

test("Envoy uses the protocol of each port of the shipped gateways: gRPC over TLS, plain HTTP", () => {
  const secured = edge.clusters.flatMap(({ name, transport_socket: socket }) =>
    socket ? [[name, socket.typed_config.sni]] : [],
  );
  expect(secured).toEqual([["gateways_grpc", "svc-gateway"]]);
  for (const file of BEHIND) {
    const { grpc } = loadConfig(gatewayConfigSchema, join(ROOT, file));
    expect([file, grpc?.port, grpc?.tls !== undefined]).toEqual([file, 50_050, true]);
  }
});
