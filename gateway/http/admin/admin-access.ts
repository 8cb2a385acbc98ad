import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { hostName, isAddress, isLoopback } from "../../../deploy/runtime/net/loopback.ts";
import type { AdminReply } from "./admin-route.ts";
import type { AdminToken } from "./admin-token.ts";

/** The part of a request that decides whether the admin port serves it. */
export type AdminCaller = Pick<IncomingMessage, "method" | "headers"> & {
  readonly socket: Pick<Socket, "remoteAddress">;
};

/** The accepted proofs of a caller on another machine. */
export type AdminProof = {
  /** Default: none. */
  readonly token?: Pick<AdminToken, "is"> | undefined;
  /** Whether callers may present a certificate, which TLS has already checked. Default: false. */
  readonly certificates?: boolean | undefined;
};

const REFUSED = {
  closed: "only health is served to other machines; admin.tokenFile or admin.tls.clientCaFile lets callers in\n",
  unproven: "the token of the admin port is missing or wrong\n",
  host: "the host has to be an IP address or localhost: names may be pointed here by anybody\n",
  origin: "requests of other sites are refused\n",
} as const;

/**
 * Returns the reply with which the admin port refuses a request, or undefined if it serves it. Callers on this machine
 * are accepted, as are callers with the token or a certificate. From a browser, only the admin's own page may change
 * something. The `Host` of a caller without proof has to be an address or localhost, against DNS rebinding.
 */
export function refusal(request: AdminCaller, proof: AdminProof): AdminReply | undefined {
  const { method, headers, socket } = request;
  const proven = isProven(request, proof);
  if (!proven && !isLoopback(socket.remoteAddress ?? "")) {
    if (!proof.token) return { status: 403, body: REFUSED[proof.certificates ? "unproven" : "closed"] };
    return { status: 401, headers: { "www-authenticate": 'Basic realm="admin"' }, body: REFUSED.unproven };
  }
  if (!proven && !isNoName(headers.host)) return { status: 403, body: REFUSED.host };
  if (method === "GET" || method === "HEAD") return undefined;
  const site = headers["sec-fetch-site"];
  const isOwn = site === undefined || site === "same-origin" || site === "none";
  if (!isOwn || !isOwnOrigin(headers.origin, headers.host, proven)) return { status: 403, body: REFUSED.origin };
  return undefined;
}

function isProven({ headers, socket }: AdminCaller, { token, certificates }: AdminProof): boolean {
  if (certificates && socket instanceof TLSSocket && socket.authorized) return true;
  const [, scheme, given = ""] = /^(bearer|basic) +(\S+)$/i.exec(headers.authorization ?? "") ?? [];
  if (token === undefined || scheme === undefined) return false;
  if (scheme.toLowerCase() === "bearer") return token.is(given);
  // The basic credentials of a browser: any name, and the token as the password.
  const pair = Buffer.from(given, "base64").toString("utf8");
  return token.is(pair.slice(pair.indexOf(":") + 1));
}

/** Returns whether a `Host` names this server by an address or as localhost; an absent one is accepted. */
function isNoName(host: string | undefined): boolean {
  return host === undefined || isAddress(hostName(host) ?? "");
}

/**
 * Returns whether a request with this `Origin` may change something: only one from the admin's own page, opened by
 * address or as localhost. A name proves nothing, as its owner can point it here, unless the caller is `proven`. Tools
 * send no `Origin` and are accepted.
 */
export function isOwnOrigin(origin: string | undefined, host: string | undefined, proven = false): boolean {
  if (origin === undefined) return true;
  if (host === undefined || !URL.canParse(origin)) return false;
  const url = new URL(origin);
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  const name = url.hostname.replace(/^\[|\]$/g, "");
  if (!proven && !isAddress(name)) return false;
  // The default port is not written in an origin, but may be in `Host`.
  return url.host === host.toLowerCase().replace(url.protocol === "http:" ? /:80$/ : /:443$/, "");
}
