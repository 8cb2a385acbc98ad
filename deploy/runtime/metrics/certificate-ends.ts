import { X509Certificate } from "node:crypto";
import type { Pems } from "../files/followed-file.ts";
import { gauge, type Series } from "./metric-table.ts";

const BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Returns the row of the ends of certificates, which every program with TLS has in its table. */
export function certificateRow(action: string) {
  const help =
    "Unix time at which the first certificate of a role ends, by role: own, authority, peer. Absent without TLS.";
  return gauge(["role"])(help, action);
}

/** Returns the ends of all certificates of a PEM text, in milliseconds of the wall clock. */
function endsOf(pem: Pems["cert"]): readonly number[] {
  const blocks = String(pem ?? "").match(BLOCK) ?? [];
  return blocks.map((block) => Date.parse(new X509Certificate(block).validTo));
}

/**
 * Returns when the certificates in use end: the first of `own`, with their chains, and of the `peers` that are
 * connected, in milliseconds of the wall clock; of an authority the last, as files have two while it changes.
 */
export function certificateEnds(own: readonly Pems[], peers: readonly number[] = []): readonly Series<"role">[] {
  const ends = {
    own: own.flatMap(({ cert }) => endsOf(cert)),
    authority: own.flatMap(({ ca }) => (ca === undefined ? [] : [Math.max(...endsOf(ca))])),
    peer: peers,
  };
  return Object.entries(ends).map(([role, all]) => [{ role }, all.length > 0 ? Math.min(...all) / 1_000 : undefined]);
}
