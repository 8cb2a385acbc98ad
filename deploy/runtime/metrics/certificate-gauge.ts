import { X509Certificate } from "node:crypto";
import { Gauge, type Registry } from "prom-client";
import type { Pems } from "../files/followed-file.ts";

const BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Returns the ends of all certificates of a PEM text, in milliseconds of the wall clock. */
function endsOf(pem: Pems["cert"]): readonly number[] {
  const blocks = String(pem ?? "").match(BLOCK) ?? [];
  return blocks.map((block) => Date.parse(new X509Certificate(block).validTo));
}

/**
 * Registers when the certificates in use end: the first of `own`, with their chains, and of the `peers` that are
 * connected, in milliseconds of the wall clock; of an authority the last, as files have two while it changes.
 */
export function registerCertificateGauge(
  registry: Registry,
  own: () => Iterable<Pems>,
  peers: () => Iterable<number> = () => [],
): void {
  new Gauge({
    name: "svc_tls_certificate_expiry_timestamp_seconds",
    help: "Unix time at which the first certificate of a role ends, by role: own, authority, peer. Absent without TLS.",
    labelNames: ["role"],
    registers: [registry],
    collect() {
      this.reset();
      const pems = [...own()];
      const ends = {
        own: pems.flatMap(({ cert }) => endsOf(cert)),
        authority: pems.flatMap(({ ca }) => (ca === undefined ? [] : [Math.max(...endsOf(ca))])),
        peer: [...peers()],
      };
      for (const [role, all] of Object.entries(ends)) if (all.length > 0) this.set({ role }, Math.min(...all) / 1_000);
    },
  });
}
