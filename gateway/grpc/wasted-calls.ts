import { hash } from "node:crypto";
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Server } from "node:net";
import { status } from "@grpc/grpc-js";
import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import { atMostEvery } from "../../deploy/runtime/log/at-most-every.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { AuthDeps } from "../http/access/auth.ts";
import { presentedKeys } from "../http/access/credentials.ts";
import { type Bucket, type BucketRule, fullBucket, refill, take, waitMs } from "../limits/token-bucket.ts";

/** The calls that one caller may waste: 200 a second, and 1,000 at once, as a client has them open that ends. */
const RULE: BucketRule = { perMinute: 200 * 60, capacity: 1_000 };
/** The number of callers that are remembered; the one that wasted nothing for longest is forgotten first. */
const MAX_CALLERS = 10_000;

/** The time in which the log says at most once that calls are refused here, in milliseconds. */
const LOG_INTERVAL_MS = 10_000;

/** The statuses that say nothing against a call: those of engines that are lost, slow or full. */
const NO_FAULT: ReadonlySet<number> = new Set([
  status.OK,
  status.UNAVAILABLE,
  status.INTERNAL,
  status.DEADLINE_EXCEEDED,
]);

/** The answer to a call that is refused here, made once: an answer with details takes longer than the rest. */
const REFUSED = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-status": String(status.RESOURCE_EXHAUSTED),
  "grpc-message": "Too many calls with this key were reset or refused. Try again in a second.",
};

/** What is known of a connection. */
type Connection = {
  /** The name by which calls without a key are counted. */
  readonly name: string;
  /** The id of the key of its calls so far; undefined where none had one that is valid. */
  keyId: string | undefined;
  /** Whether calls of several keys have come on it, as on that of an edge. */
  shared: boolean;
};

/** What bounding wasted calls works with: the valid keys among it, and the statistics that count refused calls. */
export type WastedCallsDeps = Pick<AuthDeps, "keys" | "stats"> & {
  /** The log that says, now and then, whose calls are refused. */
  readonly log: Logger;
  /** The clock by which callers may waste calls again. */
  readonly clock: Clock;
};

type OnStream = (
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  raw: readonly string[],
) => void;

/**
 * Bounds the calls that a caller wastes: resets before their end, or makes although they are refused. A caller is a key or
 * token, or the connection of calls without one. One that wastes more has its calls ended before anything is done
 * for them, with RESOURCE_EXHAUSTED, and its connection where no other key's calls have come on it. Each call costs the
 * loop of the process some 0.1 ms until it is refused, so that a flood of them would leave nothing of it to others.
 */
export class WastedCalls {
  readonly #clock: Clock;
  readonly #keys: WastedCallsDeps["keys"];
  readonly #refused: (keyId: string | undefined) => void;
  readonly #callers = new LRUCache<string, Bucket>({ max: MAX_CALLERS });
  readonly #connections = new WeakMap<Http2Session, Connection>();
  #named = 0;

  /** Begins with no caller that has wasted a call. */
  constructor({ keys, log, stats, clock }: WastedCallsDeps) {
    this.#clock = clock;
    this.#keys = keys;
    const say = atMostEvery(clock, LOG_INTERVAL_MS, (keyId: string | undefined, calls) =>
      log.warn({ key_id: keyId, calls }, "calls are refused: too many of their key were reset or refused"),
    );
    this.#refused = (keyId) => {
      stats.rateLimitDecisions.of("wasted_calls", "refused").inc();
      say(keyId);
    };
  }

  /** Has the calls of a server of HTTP/2 come here before they reach those who listen for them now. */
  guard(server: Server): void {
    const listeners = server.listeners("stream") as OnStream[];
    server.removeAllListeners("stream");
    server.on("stream", ((stream, headers, flags, raw) => {
      if (this.#admits(stream, raw))
        for (const listener of listeners) listener.call(server, stream, headers, flags, raw);
    }) satisfies OnStream);
  }

  /** Notes that a call with a key that is valid has come on a connection. */
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
    // A token is known by its text until it was checked, and by all that is beside it: others may send that, too.
    const text = presented.length > 0 ? hash("sha256", presented.join(" "), "base64") : connection.name;
    const caller = keyId ?? text;
    if (waitMs(this.#bucketOf(caller), RULE, 1) === 0) {
      this.#follow(stream, caller);
      return true;
    }
    this.#refused(keyId);
    stream.on("error", () => {});
    stream.respond(REFUSED, { endStream: true });
    if (!connection.shared) session.close();
    return false;
  }

  /** Counts a call where it turns out to be wasted. */
  #follow(stream: ServerHttp2Stream, caller: string): void {
    const wasted = () => {
      stream.off("close", closed);
      const bucket = this.#bucketOf(caller);
      // Calls that came together are counted when they have ended, into debt: one that is paid off in five seconds.
      if (bucket.level > -RULE.capacity) this.#callers.set(caller, take(bucket, RULE, 1));
    };
    const closed = () => {
      // Only an answer without a message has its status in its first headers.
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

  #bucketOf(caller: string): Bucket {
    const nowMs = this.#clock.nowMs();
    const known = this.#callers.get(caller);
    return known ? refill(known, RULE, nowMs) : fullBucket(RULE, nowMs);
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

/** Returns the keys that a call presents; none where nothing that it presents could be one. */
function keysOf(rawHeaders: readonly string[]): readonly string[] {
  try {
    return presentedKeys(rawHeaders, Number.POSITIVE_INFINITY);
  } catch {
    return [];
  }
}
