import { hash } from "node:crypto";
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Server } from "node:net";
import { status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { atMostEvery } from "../../deploy/runtime/log/process-log.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type AuthDeps, presentedKeys } from "../http/access/auth.ts";
import { type BucketRule, TokenBuckets } from "../limits/token-bucket.ts";

/**
 * Wasted calls of one caller: 200 a second, and a burst of 1,000, because a client that exits cancels all its open
 * calls.
 */
const RULE: BucketRule = { perMinute: 200 * 60, capacity: 1_000 };
/** Tracked callers; the caller with the oldest wasted call is evicted first. */
const MAX_CALLERS = 10_000;

/** Milliseconds between two log lines about refused calls. */
const LOG_INTERVAL_MS = 10_000;

/** Statuses that are not the caller's fault: those of lost, slow or full engines. */
const NO_FAULT: ReadonlySet<number> = new Set([
  status.OK,
  status.UNAVAILABLE,
  status.INTERNAL,
  status.DEADLINE_EXCEEDED,
]);

/** The reply to a refused call, made once: building the details takes longer than the rest. */
const REFUSED = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-status": String(status.RESOURCE_EXHAUSTED),
  "grpc-message": "Too many calls with this key were reset or refused. Try again in a second.",
};

type Connection = {
  /** Name under which calls without a key are counted. */
  readonly name: string;
  /** Id of the key of the calls so far; undefined if none had a valid key. */
  keyId: string | undefined;
  /** Whether calls of several keys share the connection, as behind an edge proxy. */
  shared: boolean;
};

export type WastedCallsDeps = Pick<AuthDeps, "keys" | "stats"> & {
  /** Logs, at an interval, which callers are refused. */
  readonly log: Logger;
  readonly clock: Clock;
};

type OnStream = (
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  raw: readonly string[],
) => void;

/**
 * Bounds the calls that a caller wastes: calls that it resets early, or makes although they are refused. A caller is a
 * key or token, or the connection for calls without one. Beyond the bound, calls end at once with RESOURCE_EXHAUSTED,
 * and the connection is closed unless calls of another key share it. Each call costs some 0.1 ms of the event loop
 * until it is refused, so a flood of them would starve other callers.
 */
export class WastedCalls {
  readonly #keys: WastedCallsDeps["keys"];
  readonly #refused: (keyId: string | undefined) => void;
  readonly #callers: TokenBuckets;
  readonly #connections = new WeakMap<Http2Session, Connection>();
  #named = 0;

  constructor({ keys, log, stats, clock }: WastedCallsDeps) {
    this.#callers = new TokenBuckets(RULE, MAX_CALLERS, clock);
    this.#keys = keys;
    const say = atMostEvery(clock, LOG_INTERVAL_MS, (keyId: string | undefined, calls) =>
      log.warn({ key_id: keyId, calls }, "calls are refused: too many of their key were reset or refused"),
    );
    this.#refused = (keyId) => {
      stats.rateLimitDecisions.inc({ dim: "wasted_calls", decision: "refused" });
      say(keyId);
    };
  }

  /** Intercepts the calls of an HTTP/2 server before its current listeners. */
  guard(server: Server): void {
    const listeners = server.listeners("stream") as OnStream[];
    server.removeAllListeners("stream");
    server.on("stream", ((stream, headers, flags, raw) => {
      if (this.#admits(stream, raw))
        for (const listener of listeners) listener.call(server, stream, headers, flags, raw);
    }) satisfies OnStream);
  }

  /** Records a call with a valid key on a connection. */
  hasKey(session: Http2Session, keyId: string): void {
    const connection = this.#connectionOf(session);
    connection.shared ||= connection.keyId !== undefined && connection.keyId !== keyId;
    connection.keyId = keyId;
  }

  #admits(stream: ServerHttp2Stream, rawHeaders: readonly string[]): boolean {
    const { session } = stream;
    if (!session) return false;
    const connection = this.#connectionOf(session);
    const presented = keysOf(rawHeaders);
    const keyId = this.#keyIdOf(presented) ?? (connection.shared ? undefined : connection.keyId);
    // An unverified token is counted by its text together with the connection: other callers may send the same text.
    const text = presented.length > 0 ? hash("sha256", presented.join(" "), "base64") : connection.name;
    const caller = keyId ?? text;
    if (this.#callers.level(caller) >= 1) {
      this.#follow(stream, caller);
      return true;
    }
    this.#refused(keyId);
    stream.on("error", () => {});
    stream.respond(REFUSED, { endStream: true });
    // Not at once: Node 20 has corrupted its heap where a session ended inside the callback for one of its frames.
    if (!connection.shared && !session.closed) setImmediate(() => session.close());
    return false;
  }

  /** Counts the call if it turns out to be wasted. */
  #follow(stream: ServerHttp2Stream, caller: string): void {
    const wasted = () => {
      stream.off("close", closed);
      // Concurrent calls are counted when they end and may cause a debt, which is repaid within five seconds.
      if (this.#callers.level(caller) > -RULE.capacity) this.#callers.take(caller);
    };
    const closed = () => {
      // Only a reply without messages has its status in its first headers.
      const code = stream.sentHeaders?.["grpc-status"];
      if (code !== undefined && !NO_FAULT.has(Number(code))) wasted();
    };
    stream.once("aborted", wasted);
    stream.once("close", closed);
  }

  #keyIdOf(presented: readonly string[]): string | undefined {
    for (const key of presented) {
      const principal = this.#keys.find(key);
      if (principal) return principal.keyId;
    }
    return undefined;
  }

  #connectionOf(session: Http2Session): Connection {
    const known = this.#connections.get(session);
    if (known) return known;
    this.#named += 1;
    const made: Connection = { name: `connection ${this.#named}`, keyId: undefined, shared: false };
    this.#connections.set(session, made);
    return made;
  }
}

/** Returns the keys that a call presents; empty if none has the form of a key. */
function keysOf(rawHeaders: readonly string[]): readonly string[] {
  try {
    return presentedKeys(rawHeaders, Number.POSITIVE_INFINITY);
  } catch {
    return [];
  }
}
