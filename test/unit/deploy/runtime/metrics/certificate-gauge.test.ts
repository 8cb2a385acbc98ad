import { readFileSync } from "node:fs";
import { Registry } from "prom-client";
import { describe, expect, onTestFinished, test } from "vitest";
import { registerCertificateGauge } from "../../../../../deploy/runtime/metrics/certificate-gauge.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../../../support/certificates.ts";
import { metricSum } from "../../../../support/metric-text.ts";

const NAME = "svc_tls_certificate_expiry_timestamp_seconds";
const DAY_MS = 86_400_000;

describe.skipIf(!HAS_OPENSSL)(`the ends of certificates ${HAS_OPENSSL ? "" : NO_OPENSSL}`, () => {
  test("are those in use at the scrape: the first of its own and of peers, the last of an authority's file", async () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    certificates.authority("old", 3);
    certificates.authority("new", 300);
    certificates.signed("long", "new", "DNS:localhost", 90);
    certificates.signed("short", "new", "DNS:localhost", 10);
    const read = (...names: readonly string[]) =>
      Buffer.concat(names.map((name) => readFileSync(certificates.file(`${name}.pem`))));
    const registry = new Registry();
    let cert = read("short");
    const peers: number[] = [];
    registerCertificateGauge(
      registry,
      () => [{ cert: read("long", "new"), ca: read("old", "new") }, { cert }],
      () => peers,
    );
    const days = async (role: string) => {
      const seconds = metricSum(await registry.metrics(), NAME, `role="${role}"`);
      return Math.round((seconds * 1_000 - Date.now()) / DAY_MS);
    };
    expect([await days("own"), await days("authority")]).toEqual([10, 300]);
    expect(await registry.metrics()).not.toContain('role="peer"');
    cert = read("long");
    peers.push(Date.now() + 40 * DAY_MS, Date.now() + 4 * DAY_MS);
    expect([await days("own"), await days("peer")]).toEqual([90, 4]);
  });

  test("the ends of certificates are absent without TLS", async () => {
    const registry = new Registry();
    registerCertificateGauge(registry, () => []);
    expect(await registry.metrics()).not.toMatch(new RegExp(`^${NAME}`, "m"));
  });
});
