import { readFileSync } from "node:fs";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { TLSSocket } from "node:tls";
import { errnoOf, readPrivateFileSync } from "../runtime/files/private-file.ts";
import { onAbort } from "../runtime/time/abort.ts";
import type { ProberConfig } from "./config.ts";

/** The most characters of a reply that are read. */
const MAX_REPLY = 1024 * 1024;

/** A promise that was not kept. The reason is a token for log lines: no text of a reply. */
export class Unproven extends Error {
  override readonly name = "Unproven";
  readonly reason: string;

  constructor(reason: string) {
    super(reason);
    this.reason = reason;
  }
}

export type Asked = {
  readonly key: string;
  /** Sent as JSON by POST; absent: GET. */
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
};

export type Reply = { readonly status: number; readonly text: string };

/**
 * The service as callers reach it. Each request has a connection of its own, so that it sees the name, the address and
 * the certificate of now.
 */
export class Edge {
  /** The end of the certificate seen last, in milliseconds of the wall clock; undefined before, and without TLS. */
  certificateEndsMs: number | undefined;
  readonly #settings: ProberConfig["edge"];
  readonly #lookup: LookupFunction | undefined;

  /** `lookup` resolves the name of the service. Default: the system's. */
  constructor(settings: ProberConfig["edge"], lookup?: LookupFunction) {
    this.#settings = settings;
    this.#lookup = lookup;
  }

  get hasTls(): boolean {
    return this.#settings.url.startsWith("https:");
  }

  /** Makes one request. Resolves to the whole reply. Throws `Unproven` where there is none. */
  ask(path: string, { key, body, headers }: Asked, signal: AbortSignal): Promise<Reply> {
    const { url, caFile, serverName } = this.#settings;
    const payload = body && JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => {
        stopListening();
        reject(broken(error));
      };
      const sent = (this.hasTls ? requestHttps : requestHttp)(new URL(path, url), {
        ...{ agent: false, method: payload === undefined ? "GET" : "POST" },
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
        ...(this.#lookup && { lookup: this.#lookup }),
        ...(caFile !== undefined && { ca: authorities(caFile) }),
        ...(serverName !== undefined && { servername: serverName }),
      });
      const stopListening = onAbort(signal, () => sent.destroy(new Unproven("timeout")));
      sent.on("error", fail);
      sent.once("response", (reply) => {
        if (reply.socket instanceof TLSSocket)
          this.certificateEndsMs = Date.parse(reply.socket.getPeerCertificate().valid_to);
        void textOf(reply).then((text) => {
          stopListening();
          resolve({ status: reply.statusCode ?? 0, text });
        }, fail);
      });
      sent.end(payload);
    });
  }
}

async function textOf(reply: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of reply.setEncoding("utf8")) {
    text += piece;
    if (text.length > MAX_REPLY) throw new Unproven("reply_too_large");
  }
  return text;
}

/** Returns an error as a token: that of Node, such as ECONNREFUSED or CERT_HAS_EXPIRED. */
function broken(error: unknown): Unproven {
  return error instanceof Unproven ? error : new Unproven(errnoOf(error).toLowerCase() || "broken");
}

function authorities(caFile: string): Buffer {
  try {
    return readFileSync(caFile);
  } catch {
    throw new Unproven("ca_unreadable");
  }
}

/** Reads a key, at each use: a file may be replaced. Throws `Unproven`. */
export function readKey(keyFile: string): string {
  try {
    const key = readPrivateFileSync(keyFile)?.toString("utf8").trim();
    if (key) return key;
  } catch {
    // Its mode, or its owner, is wrong.
  }
  throw new Unproven("key_unreadable");
}
