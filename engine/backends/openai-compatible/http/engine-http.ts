import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { linkAbort } from "../../../../deploy/runtime/time/abort.ts";
import { callerLeft, EngineError } from "../../../errors.ts";

/** The most bytes of a reply that is read as a whole; a token count may list all its tokens. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

export type EngineCall = {
  readonly path: string;
  /** The body of a POST, as JSON text or its bytes; absent for a GET. */
  readonly body?: string | readonly Buffer[];
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The longest time until the reply begins, in milliseconds; 0 for no limit. */
  readonly timeoutMs: number;
  /** Called when the whole request has been handed to an open connection. */
  readonly onSent?: () => void;
};

export type EngineReply = {
  readonly status: number;
  /** The body of the reply. A reader that stops early must `destroy` it: closing the connection stops the engine. */
  readonly stream: IncomingMessage;
};

/**
 * An HTTP client of the engine. Every request uses a new connection: closing it aborts a generation, and a kept
 * connection that the server has just closed cannot fail the next request. Node's `fetch` is not used, because it gives
 * up on a reply that takes more than five minutes to begin.
 */
export class EngineHttp {
  readonly #baseUrl: URL;
  readonly #headers: Readonly<Record<string, string>>;

  /** `apiKey` is sent as a bearer token with every request; undefined for none. */
  constructor(baseUrl: string, apiKey: string | undefined) {
    this.#baseUrl = new URL(baseUrl);
    this.#headers = {
      "content-type": "application/json",
      accept: "*/*",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    };
  }

  /** Resolves with the head of the reply. Throws `EngineError` ENGINE_DOWN, or why the caller left. */
  open(call: EngineCall, signal: AbortSignal): Promise<EngineReply> {
    const url = new URL(this.#baseUrl.pathname.replace(/\/$/, "") + call.path, this.#baseUrl);
    const request = url.protocol === "https:" ? requestHttps : requestHttp;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(callerLeft(signal));
      const body = typeof call.body === "string" ? [Buffer.from(call.body)] : call.body;
      const bytes = body?.reduce((sum, piece) => sum + piece.length, 0);
      const length = bytes === undefined ? {} : { "content-length": String(bytes) };
      const outgoing = request(url, {
        method: body ? "POST" : "GET",
        headers: { ...this.#headers, ...call.headers, ...length },
        agent: false,
        signal,
      });
      let timedOut = false;
      const giveUp = () => {
        timedOut = true;
        outgoing.destroy();
      };
      const timer = call.timeoutMs > 0 ? setTimeout(giveUp, call.timeoutMs) : undefined;
      outgoing.on("response", (stream) => {
        clearTimeout(timer);
        resolve({ status: stream.statusCode ?? 0, stream });
      });
      // Stays attached: the error of a stream that is destroyed midway is also emitted here.
      outgoing.on("error", (cause) => {
        clearTimeout(timer);
        if (signal.aborted) reject(callerLeft(signal));
        else if (timedOut) reject(new EngineError("ENGINE_DOWN", "The engine did not answer in time."));
        else reject(new EngineError("ENGINE_DOWN", "The engine cannot be reached.", {}, cause));
      });
      outgoing.on("finish", () => call.onSent?.());
      for (const piece of body ?? []) outgoing.write(piece);
      outgoing.end();
    });
  }

  /** Resolves to a complete reply. Throws `EngineError` as `open` does; an unsuccessful status is not an error here. */
  async fetch(call: EngineCall, signal: AbortSignal): Promise<WholeReply> {
    const link = linkAbort(signal);
    const late = () => link.abort(new EngineError("ENGINE_DOWN", "The engine did not answer in time."));
    const timer = call.timeoutMs > 0 ? setTimeout(late, call.timeoutMs) : undefined;
    try {
      const { status, stream } = await this.open({ ...call, timeoutMs: 0 }, link.signal);
      return new WholeReply(status, await readBytes(stream));
    } catch (error) {
      if (link.signal.aborted) throw callerLeft(link.signal);
      if (error instanceof EngineError) throw error;
      throw new EngineError("ENGINE_DOWN", "The engine's reply broke off.", {}, error);
    } finally {
      clearTimeout(timer);
      link.release();
    }
  }
}

/** Returns whether a request failed without a connection, as opposed to a timeout. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof EngineError && error.reason === "ENGINE_DOWN" && error.cause !== undefined;
}

/** Returns whether nothing listens at the engine's address. */
export function isRefused(error: unknown): boolean {
  const cause = error instanceof EngineError ? error.cause : undefined;
  return isUnreachable(error) && cause instanceof Error && "code" in cause && cause.code === "ECONNREFUSED";
}

/** A reply in one piece. */
export class WholeReply {
  readonly status: number;
  readonly bytes: Buffer;

  constructor(status: number, bytes: Buffer) {
    this.status = status;
    this.bytes = bytes;
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }
}

/** Throws the stream's error, and `EngineError` PROTOCOL_VIOLATION for a reply that is too large. */
export async function readBytes(stream: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of stream) {
    if (!Buffer.isBuffer(piece)) continue;
    pieces.push(piece);
    length += piece.length;
    if (length > MAX_REPLY_BYTES) throw new EngineError("PROTOCOL_VIOLATION", "The engine's reply is too large.");
  }
  return Buffer.concat(pieces);
}
