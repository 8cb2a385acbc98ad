import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { FollowedFile, FollowedPems, type Pems } from "../../../deploy/runtime/files/followed-file.ts";
import { FileError, readPrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import { hostName, isAddress, isLoopback } from "../../../deploy/runtime/net/loopback.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { AdminReply } from "./admin-route.ts";
import type { AdminSettings } from "./admin-settings.ts";

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

/** In characters: a shorter token can be guessed. */
const MIN_TOKEN_LENGTH = 16;

type Reload = (fault: string | undefined) => void;

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

/** The error for a token file that is missing, too short or open to others; its message names no content. */
export class AdminTokenError extends Error {
  override readonly name = "AdminTokenError";
}

/** Keeps the token of the admin port, as a digest, and watches its file: an unusable file changes nothing. */
export class AdminToken {
  readonly #file: string;
  readonly #onReload: Reload;
  readonly #followed: FollowedFile;
  #digest: Buffer;
  #fault: string | undefined;

  private constructor(file: string, digest: Buffer, clock: Pick<Clock, "after">, onReload: Reload) {
    this.#file = file;
    this.#digest = digest;
    this.#onReload = onReload;
    this.#followed = new FollowedFile({ files: [file], clock, take: (signal) => this.#take(signal) });
  }

  /**
   * Reads the token and watches `file` until `close`. Rejects with `AdminTokenError` if it is unusable. After each
   * later change of the file, `onReload` receives undefined if the token was replaced, else the reason why it is
   * unusable.
   */
  static async open(file: string, clock: Pick<Clock, "after">, onReload: Reload): Promise<AdminToken> {
    return new AdminToken(file, await readToken(file), clock, onReload);
  }

  /** Returns whether `text` is the token; the time taken does not reveal how much of it matches. */
  is(text: string): boolean {
    return timingSafeEqual(digestOf(text), this.#digest);
  }

  /** Stops watching the file; the token in force stays. */
  close(): void {
    this.#followed.close();
  }

  async #take(signal: AbortSignal): Promise<"taken" | "again"> {
    const before = this.#fault;
    try {
      const digest = await readToken(this.#file);
      if (signal.aborted) return "again";
      const isNew = !digest.equals(this.#digest);
      this.#digest = digest;
      this.#fault = undefined;
      if (isNew || before !== undefined) this.#onReload(undefined);
    } catch (error) {
      if (!(error instanceof AdminTokenError)) throw error;
      this.#fault = error.message;
      if (this.#fault !== before) this.#onReload(this.#fault);
    }
    return this.#fault === undefined ? "taken" : "again";
  }
}

async function readToken(file: string): Promise<Buffer> {
  try {
    const token = (await readPrivateFile(file))?.toString("utf8").trim();
    if (token === undefined) throw new AdminTokenError(`${file} is not there`);
    if (token.length < MIN_TOKEN_LENGTH) throw new AdminTokenError(`${file} has fewer than 16 characters`);
    return digestOf(token);
  } catch (cause) {
    if (cause instanceof FileError) throw new AdminTokenError(cause.message, { cause });
    throw cause;
  }
}

/** The certificates of the admin port, and a function that stops watching their files. */
export type AdminTls = {
  /** Makes the server that shows the certificate, and the newest one to new connections whenever the files change. */
  server(handler: RequestListener): Server;
  readonly pems: Pems;
  close(): void;
};

/**
 * Reads the certificates of the admin port and watches their files. Throws `PemError` if they are unusable now;
 * `onReload` receives changes as with `FollowedPems`.
 */
export function openAdminTls(
  { certFile, keyFile, clientCaFile }: NonNullable<AdminSettings["tls"]>,
  clock: Pick<Clock, "after">,
  onReload: Reload,
): AdminTls {
  const pems = new FollowedPems({
    at: "admin.tls",
    files: [
      { part: "cert", key: "certFile", file: certFile },
      { part: "key", key: "keyFile", file: keyFile },
      { part: "ca", key: "clientCaFile", file: clientCaFile },
    ],
    clock,
    onReload,
  });
  return {
    server(handler) {
      // Callers without an accepted certificate may still read health; the other paths check whether it was accepted.
      const asked = { requestCert: clientCaFile !== undefined, rejectUnauthorized: false };
      const server = createServer({ ...pems.now, ...asked, minVersion: "TLSv1.2" }, handler);
      pems.onChange((now) => server.setSecureContext({ ...now, minVersion: "TLSv1.2" }));
      return server;
    },
    get pems() {
      return pems.now;
    },
    close: () => pems.close(),
  };
}
