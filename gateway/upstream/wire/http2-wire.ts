import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
} from "node:http2";
import { isIP, connect as netConnect, type Socket } from "node:net";
import { checkServerIdentity, connect as tlsConnect } from "node:tls";
import { Metadata, status } from "@grpc/grpc-js";
import type { Pems } from "../../../deploy/runtime/files/followed-pems.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { failedCall } from "./call-status.ts";
import type { GenerateWire, WireCall, WireListener, WireRequest } from "./generate-wire.ts";
import { Http2Call } from "./http2-call.ts";

/**
 * The window of each stream, in bytes: what a node may send ahead of a reader that is slow. It is some thousand deltas,
 * and all of them are kept here.
 */
const STREAM_WINDOW_BYTES = 64 * 1024;
/** The window of the connection, in bytes. It is given back as bytes come, whoever reads them. */
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;
/** The longest time that connecting may take, in milliseconds; calls have shorter limits of their own. */
const CONNECT_MS = 20_000;
/** The time after a connection could not be made in which no other is tried, in milliseconds. */
const RECONNECT_MS = 100;
/** The time in which a connection has to answer that is in doubt, in milliseconds. */
const PROBE_MS = 1_000;
/** The longest number of milliseconds that the header of a deadline can hold. */
const MAX_TIMEOUT_MS = 99_999_999;

/** What a call says that has found no connection. */
const NO_CONNECTION = "No connection established";

const UNSECURED = "http://node";
const SECURED = "https://node";

/** How connections of a wire are secured. */
export type WireTls = {
  /** Returns the certificates that new connections trust and show. */
  readonly pems: () => Pems;
  /** The name that the certificate of the endpoint must be for; undefined for the host of its address. */
  readonly serverName: string | undefined;
};

/** What a wire over HTTP/2 goes by. */
export type Http2WireOptions = {
  /** The address of the endpoint, `host:port`; an IPv6 address stands in brackets. */
  readonly address: string;
  /** How connections are secured; undefined for plain text. */
  readonly tls: WireTls | undefined;
  /** The size of the largest message that may come, in bytes. */
  readonly maxMessageBytes: number;
  /**
   * The clock by which the deadlines of calls are kept. Default: the system's. What keeps the connection itself goes by
   * the machine's time, as with grpc-js: the other side of it does, too.
   */
  readonly clock?: Clock;
  /** The time between two pings, in milliseconds, which a node may ask to double. Default: 20 s. */
  readonly pingMs?: number;
  /** The time in which a ping has to be answered, in milliseconds. Default: 10 s. */
  readonly pingTimeoutMs?: number;
};

/**
 * Carries Generate calls over one connection of `node:http2`, without the layers of a gRPC library around each message.
 * It connects when it is warmed or at its first call, and again at the next one after a connection was lost or is to get
 * no more.
 */
export class Http2Wire implements GenerateWire {
  readonly #options: Http2WireOptions;
  readonly #clock: Clock;
  readonly #pingTimeoutMs: number;
  #pingMs: number;
  /** The connection for new calls; undefined where there is none. */
  #session: ClientHttp2Session | undefined;
  /** The same once it stands: the node has answered in HTTP/2. */
  #standing: ClientHttp2Session | undefined;
  /**
   * The calls that wait for their connection to stand, by connection: how many a node takes at once is not
   * known before, and it refuses the others.
   */
  readonly #waiting = new Map<ClientHttp2Session, Http2Call[]>();
  /** All connections that are open: of those that get no new calls some may still run. */
  readonly #sockets = new Set<Socket>();
  /** The moment at which a connection could not be made, in milliseconds of the monotonic clock. */
  #failedMs = Number.NEGATIVE_INFINITY;
  #closed = false;
  /** Made once: one that was made with a call would keep the message of the call. */
  readonly #onSilent = (session: ClientHttp2Session) => this.#probe(session);

  /** Makes a wire that has no connection yet. */
  constructor(options: Http2WireOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#pingMs = options.pingMs ?? 20_000;
    this.#pingTimeoutMs = options.pingTimeoutMs ?? 10_000;
  }

  /** Whether the connection for new calls stands. */
  get connected(): boolean {
    return this.#standing !== undefined && this.#standing === this.#session && isUsable(this.#standing);
  }

  /** Opens a call, on a new connection where there is none. */
  open(request: WireRequest, listener: WireListener): WireCall {
    const session = this.#usable();
    if (!session) return failing(listener);
    const { maxMessageBytes } = this.#options;
    const call = () =>
      new Http2Call({ request, listener, maxMessageBytes, clock: this.#clock, onSilent: this.#onSilent });
    const waiting = this.#waiting.get(session);
    if (waiting) {
      const later = call();
      waiting.push(later);
      return later;
    }
    const stream = requested(session, this.#headers(request));
    if (!stream) return failing(listener);
    const begun = call();
    begun.begin(session, stream);
    return begun;
  }

  /**
   * Connects, so that the next call finds a connection: also where none could be made a moment ago, as whoever asks knows
   * better.
   */
  warm(): void {
    this.#failedMs = Number.NEGATIVE_INFINITY;
    this.#usable();
  }

  /** Closes all connections, and ends the calls that run on them. */
  close(): void {
    this.#closed = true;
    this.#session = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Returns the connection for new calls, which may still be under way; undefined where none is to be tried now. */
  #usable(): ClientHttp2Session | undefined {
    if (this.#session && isUsable(this.#session)) return this.#session;
    if (this.#closed || performance.now() - this.#failedMs < RECONNECT_MS) return undefined;
    this.#session = this.#connect();
    return this.#session;
  }

  #connect(): ClientHttp2Session {
    const { tls } = this.#options;
    // A connection that is given up goes with its socket: a session that was told to end by its node would wait for it.
    const socket = this.#socket();
    const session = connect(tls ? SECURED : UNSECURED, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES },
      // Its bound is one of all streams together: how many there are is decided elsewhere.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
    });
    this.#sockets.add(socket);
    this.#waiting.set(session, []);
    const connecting = setTimeout(() => socket.destroy(), CONNECT_MS);
    connecting.unref();
    let stopPings: (() => void) | undefined;
    session.once("connect", () => {
      // Whoever does not speak HTTP/2 would be sent it all the same.
      if (tls && (!("alpnProtocol" in socket) || socket.alpnProtocol !== "h2")) socket.destroy();
      else session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    });
    session.once("remoteSettings", () => {
      clearTimeout(connecting);
      this.#standing = session;
      stopPings = this.#ping(session, socket);
      this.#beginWaiting(session, () => session);
    });
    session.on("goaway", (code: number, _lastId: number, why?: Buffer) => {
      const tooMany = why !== undefined && Buffer.from(why).toString("latin1") === "too_many_pings";
      if (code === constants.NGHTTP2_ENHANCE_YOUR_CALM && tooMany) this.#pingMs *= 2;
    });
    // Each call hears of it by itself.
    session.on("error", () => {});
    session.once("close", () => {
      clearTimeout(connecting);
      stopPings?.();
      this.#sockets.delete(socket);
      if (!stopPings) this.#failedMs = performance.now();
      if (this.#standing === session) this.#standing = undefined;
      if (this.#session === session) this.#session = undefined;
      // Nothing of them was written on a connection that was in doubt; one that was never made is no better a second time.
      this.#beginWaiting(session, () => (stopPings ? this.#usable() : undefined));
    });
    return session;
  }

  /** Puts the calls that have waited for a connection on another one, or on itself; ends them where there is none. */
  #beginWaiting(session: ClientHttp2Session, on: () => ClientHttp2Session | undefined): void {
    const waiting = this.#waiting.get(session) ?? [];
    this.#waiting.delete(session);
    if (waiting.length > 0) this.#put(waiting, on());
  }

  /** Puts calls on a connection, to wait with others where it does not stand; ends them where there is none. */
  #put(calls: readonly Http2Call[], session: ClientHttp2Session | undefined): void {
    const waiting = session && this.#waiting.get(session);
    if (waiting) {
      waiting.push(...calls);
      return;
    }
    for (const call of calls) {
      const { request } = call;
      if (!request) continue;
      const stream = session && requested(session, this.#headers(request));
      if (stream) call.begin(session, stream);
      else call.fail(status.UNAVAILABLE, NO_CONNECTION);
    }
  }

  /**
   * Has new calls wait until the node has answered on this connection: Node tells nobody of one that has brought nonsense,
   * and reads nothing of it any more. Where no answer comes they go over another connection; what runs on this one stays
   * until its own limits, or the next ping.
   */
  #probe(session: ClientHttp2Session): void {
    if (this.#waiting.has(session) || session.destroyed) return;
    const waiting: Http2Call[] = [];
    this.#waiting.set(session, waiting);
    const timer = setTimeout(() => {
      if (this.#waiting.get(session) !== waiting) return;
      if (this.#session === session) this.#session = undefined;
      this.#beginWaiting(session, () => this.#usable());
    }, PROBE_MS);
    timer.unref();
    session.ping((error) => {
      // It was not sent, or its connection has ended, which is told as well.
      if (error) return;
      clearTimeout(timer);
      // It may have come too late.
      if (this.#waiting.get(session) === waiting) this.#beginWaiting(session, () => session);
    });
  }

  /** Asks again and again whether the node is still there. Returns what ends that. */
  #ping(session: ClientHttp2Session, socket: Socket): () => void {
    let overdue: NodeJS.Timeout | undefined;
    const timer = setInterval(() => {
      if (overdue || session.destroyed) return;
      overdue = setTimeout(() => socket.destroy(), this.#pingTimeoutMs);
      overdue.unref();
      session.ping(() => {
        clearTimeout(overdue);
        overdue = undefined;
      });
    }, this.#pingMs);
    timer.unref();
    return () => {
      clearInterval(timer);
      clearTimeout(overdue);
    };
  }

  #socket(): Socket {
    const { address, tls } = this.#options;
    const colon = address.lastIndexOf(":");
    const host = address.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
    const port = Number(address.slice(colon + 1));
    if (!tls) return netConnect({ host, port, noDelay: true });
    const name = tls.serverName ?? host;
    const socket = tlsConnect({
      ...{ host, port, ...tls.pems() },
      ALPNProtocols: ["h2"],
      // An address is no name that could be asked for.
      ...(isIP(name) === 0 && { servername: name }),
      checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    });
    socket.setNoDelay(true);
    return socket;
  }

  #headers({ headers, deadline }: WireRequest): OutgoingHttpHeaders {
    const { address, tls } = this.#options;
    const timeoutMs = Math.min(MAX_TIMEOUT_MS, Math.max(1, Math.ceil(deadline - this.#clock.wallMs())));
    return {
      ":method": "POST",
      ":scheme": tls ? "https" : "http",
      ":authority": tls?.serverName ?? address,
      ":path": InferenceServiceService.generate.path,
      te: "trailers",
      "content-type": "application/grpc",
      "user-agent": "svc-gateway",
      "grpc-timeout": `${timeoutMs}m`,
      ...headers,
    };
  }
}

/** Returns whether a connection takes new calls: it has not been closed, by either side. */
function isUsable(session: ClientHttp2Session): boolean {
  return !session.closed && !session.destroyed;
}

/** Opens a stream. Returns undefined where the connection has just ended, or has no ids left. */
function requested(session: ClientHttp2Session, headers: OutgoingHttpHeaders): ClientHttp2Stream | undefined {
  try {
    return session.request(headers, { endStream: false });
  } catch {
    return undefined;
  }
}

/** Returns a call that fails in the next turn of the event loop, as it has no connection. */
function failing(listener: WireListener): WireCall {
  let over = false;
  const end = (code: status, details: string) => {
    if (over) return;
    over = true;
    listener.ended({ error: failedCall(code, details), trailers: new Metadata() });
  };
  setImmediate(() => end(status.UNAVAILABLE, NO_CONNECTION));
  return { connected: false, cancel: () => end(status.CANCELLED, "Cancelled on client"), pause() {}, resume() {} };
}
