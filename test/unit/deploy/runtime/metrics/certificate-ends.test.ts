import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { certificateEnds } from "../../../../../deploy/runtime/metrics/certificate-ends.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../../../support/certificates.ts";

const DAY_MS = 86_400_000;

/** Returns the days that are left, by role. */
function daysOf(series: ReturnType<typeof certificateEnds>): Readonly<Record<string, number | undefined>> {
  const days = (seconds: number) => Math.round((seconds * 1_000 - Date.now()) / DAY_MS);
  return Object.fromEntries(series.map(([{ role }, ends]) => [role, ends === undefined ? undefined : days(ends)]));
}

describe.skipIf(!HAS_OPENSSL)(`the ends of certificates ${HAS_OPENSSL ? "" : NO_OPENSSL}`, () => {
  test("the ends of certificates are those in use: the first of its own and of peers, the last of an authority's file", () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    certificates.authority("old", 3);
    certificates.authority("new", 300);
    certificates.signed("long", "new", "DNS:localhost", 90);
    certificates.signed("short", "new", "DNS:localhost", 10);
    const read = (...names: readonly string[]) =>
      Buffer.concat(names.map((name) => readFileSync(certificates.file(`${name}.pem`))));
    let cert = read("short");
    const peers: number[] = [];
    const days = () =>
      daysOf(certificateEnds([{ cert: read("long", "new"), ca: read("old", "new") }, { cert }], peers));
    expect(days()).toEqual({ own: 10, authority: 300, peer: undefined });
    cert = read("long");
    peers.push(Date.now() + 40 * DAY_MS, Date.now() + 4 * DAY_MS);
    expect(days()).toEqual({ own: 90, authority: 300, peer: 4 });
  });

  test("the ends of certificates are absent without TLS", () => {
    expect(daysOf(certificateEnds([]))).toEqual({ own: undefined, authority: undefined, peer: undefined });
  });
});
