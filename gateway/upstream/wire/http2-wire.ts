import { isIP, connect as netConnect, type Socket } from "node:net";
import { checkServerIdentity, TLSSocket, connect as tlsConnect } from "node:tls";
import { Metadata, status } from "@grpc/grpc-js";
import type { Pems } from "../../../deploy/runtime/files/followed-file.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GenerateWire, WireCall, WireListener, WireRequest } from "./generate-wire.ts";
import { Http2Connection } from "./http2/connection.ts";
import { ErrorCode } from "./http2/frames.ts";
import { headerBlock } from "./http2/hpack.ts";
import { failedCall, Http2Call } from "./http2-call.ts";

/** The read buffer that all connections share: the bytes of one are processed before the next is read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024);
/** The longest time for connecting, in milliseconds; calls have shorter limits of their own. */
const CONNECT_MS = 20_000;
const RECONNECT_MS = 100;
/** The time in which a doubtful connection has to answer, in milliseconds. */
const PROBE_MS = 1_000;
const MAX_TIMEOUT_MS = 99_999_999;

const NO_CONNECTION = "No connection established";

export type WireTls = {
  readonly pems: () => Pems;
  /** The name that the certificate of the endpoint must be for; undefined for the host of its address. */
  readonly serverName: string | undefined;
};

export type Http2WireOptions = {
  /** The address of the endpoint, `host:port`; an IPv6 address stands in brackets. */
  readonly address: string;
  readonly tls: WireTls | undefined;
  readonly maxMessageBytes: number;
  /** The clock of the calls' deadlines; the connection's own timers use the system's, as its peer does. */
  readonly clock?: Clock;
  readonly pingMs?: number;
  readonly pingTimeoutMs?: number;
};

type Link = { readonly connection: Http2Connection; readonly socket: Socket };

/**
 * Sends Generate calls over HTTP/2, without the layers of a gRPC library around each message. It connects when warmed
 * or at its first call, and again at the next one after a connection was lost or takes no more calls: also where so
 * many calls were cancelled on one, or run on it, that the node would refuse the resets if all of them were cancelled
 * at once.
 */
export class Http2Wire implements GenerateWire {
  peerEndsMs: number | undefined;
  readonly #options: Http2WireOptions;
  readonly #clock: Clock;
  readonly #pingTimeoutMs: number;
  readonly #sameHeaders: Buffer;
  #pingMs: number;
  #link: Link | undefined;
  /** The same once it is established: the node has answered in HTTP/2. */
  #standing: Link | undefined;
  /** The calls that wait, by connection, until it is established: the node's stream limit is unknown before. */
  readonly #waiting = new Map<Http2Connection, Http2Call[]>();
  /** All open connections: calls may still run on those that get no new ones. */
  readonly #sockets = new Set<Socket>();
  /** The moment of the last failed connection, in milliseconds of the monotonic clock. */
  #failedMs = Number.NEGATIVE_INFINITY;
  #closed = false;
  /** Created once: a closure created with a call would retain the message of the call. */
  readonly #onSilent = (connection: Http2Connection) => this.#probe(connection);

  constructor(options: Http2WireOptions) {
    const { address, tls, clock, pingMs, pingTimeoutMs } = options;
    this.#options = options;
    this.#clock = clock ?? systemClock;
    this.#pingMs = pingMs ?? 20_000;
    this.#pingTimeoutMs = pingTimeoutMs ?? 10_000;
    this.#sameHeaders = headerBlock([
      [":method", "POST"],
      [":scheme", tls ? "https" : "http"],
      [":authority", tls?.serverName ?? address],
      [":path", InferenceServiceService.generate.path],
      ["te", "trailers"],
      ["content-type", "application/grpc"],
      ["user-agent", "svc-gateway"],
    ]);
  }

  get connected(): boolean {
    return this.#standing !== undefined && this.#standing === this.#link && this.#standing.connection.usable;
  }

  open(request: WireRequest, listener: WireListener): WireCall {
    const connection = this.#usable();
    if (!connection) return failing(listener);
    const { maxMessageBytes } = this.#options;
    const call = new Http2Call({ request, listener, maxMessageBytes, clock: this.#clock, onSilent: this.#onSilent });
    const waiting = this.#waiting.get(connection);
    if (waiting) waiting.push(call);
    else call.begin(connection, this.#headers(request));
    return call;
  }

  /** Connects also right after a failure, as the caller has newer information. */
  warm(): void {
    this.#failedMs = Number.NEGATIVE_INFINITY;
    this.#usable();
  }

  close(): void {
    this.#closed = true;
    this.#link = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The connection for new calls, perhaps still connecting; undefined during the delay after a failure. */
  #usable(): Http2Connection | undefined {
    const current = this.#link?.connection;
    if (current?.usable) {
      if (current.hasCapacity) return current;
      current.retire();
    }
    if (this.#closed || performance.now() - this.#failedMs < RECONNECT_MS) return undefined;
    this.#link = this.#connect();
    return this.#link.connection;
  }

  #connect(): Link {
    const socket = this.#socket((bytes) => connection.take(bytes));
    let stopPings: (() => void) | undefined;
    const connecting = setTimeout(() => socket.destroy(), CONNECT_MS);
    connecting.unref();
    const connection = new Http2Connection(socket, {
      standing: () => {
        clearTimeout(connecting);
        this.#standing = link;
        stopPings = this.#ping(link);
        this.#beginWaiting(connection, () => connection);
      },
      goingAway: (code, words) => {
        if (code === ErrorCode.ENHANCE_YOUR_CALM && words === "too_many_pings") this.#pingMs *= 2;
      },
    });
    const link: Link = { connection, socket };
    this.#sockets.add(socket);
    this.#waiting.set(connection, []);
    if (!(socket instanceof TLSSocket)) connection.begin();
    else
      socket.once("secureConnect", () => {
        // A peer that does not speak HTTP/2 would receive it all the same.
        if (socket.alpnProtocol === "h2") connection.begin();
        else socket.destroy();
      });
    // Each call receives the error separately.
    socket.on("error", () => {});
    socket.once("close", () => {
      clearTimeout(connecting);
      stopPings?.();
      this.#sockets.delete(socket);
      if (!stopPings) this.#failedMs = performance.now();
      if (this.#standing === link) this.#standing = undefined;
      if (this.#link === link) this.#link = undefined;
      // Waiting calls have written nothing. After an established connection they move to a new one; otherwise they fail.
      this.#beginWaiting(connection, () => (stopPings ? this.#usable() : undefined));
    });
    return link;
  }

  /** Moves the calls that waited for a connection to another one, or to itself; ends them where there is none. */
  #beginWaiting(connection: Http2Connection, on: () => Http2Connection | undefined): void {
    const waiting = this.#waiting.get(connection) ?? [];
    this.#waiting.delete(connection);
    if (waiting.length > 0) this.#put(waiting, on());
  }

  /** Begins calls where there is capacity; they wait for an unestablished connection, and fail without one. */
  #put(calls: readonly Http2Call[], connection: Http2Connection | undefined): void {
    let on = connection;
    for (const call of calls) {
      const { request } = call;
      if (!request) continue;
      if (on && !on.hasCapacity) on = this.#usable();
      const waiting = on && this.#waiting.get(on);
      if (waiting) waiting.push(call);
      else if (on?.usable) call.begin(on, this.#headers(request));
      else call.fail(status.UNAVAILABLE, NO_CONNECTION);
    }
  }

  /**
   * Delays new calls until the node has answered on this connection. Without an answer they use another one; running
   * calls stay on this one until their own limits, or the next ping.
   */
  #probe(connection: Http2Connection): void {
    if (this.#waiting.has(connection) || !connection.usable) return;
    const waiting: Http2Call[] = [];
    this.#waiting.set(connection, waiting);
    const timer = setTimeout(() => {
      if (this.#waiting.get(connection) !== waiting) return;
      if (this.#link?.connection === connection) this.#link = undefined;
      this.#beginWaiting(connection, () => this.#usable());
    }, PROBE_MS);
    timer.unref();
    connection.ping(() => {
      clearTimeout(timer);
      // The answer may have come too late.
      if (this.#waiting.get(connection) === waiting) this.#beginWaiting(connection, () => connection);
    });
  }

  #ping({ connection, socket }: Link): () => void {
    let overdue: NodeJS.Timeout | undefined;
    const timer = setInterval(() => {
      if (overdue) return;
      overdue = setTimeout(() => socket.destroy(), this.#pingTimeoutMs);
      overdue.unref();
      connection.ping(() => {
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

  #socket(onBytes: (bytes: Buffer) => void): Socket {
    const { address, tls } = this.#options;
    const colon = address.lastIndexOf(":");
    const host = address.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
    const port = Number(address.slice(colon + 1));
    if (!tls) {
      const callback = (bytes: number) => {
        onBytes(READ_BUFFER.subarray(0, bytes));
        return true;
      };
      return netConnect({ host, port, noDelay: true, onread: { buffer: READ_BUFFER, callback } });
    }
    const name = tls.serverName ?? host;
    const socket = tlsConnect({
      ...{ host, port, ...tls.pems() },
      ALPNProtocols: ["h2"],
      // SNI allows no IP address.
      ...(isIP(name) === 0 && { servername: name }),
      checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    });
    socket.setNoDelay(true);
    socket.once("secureConnect", () => {
      this.peerEndsMs = Date.parse(socket.getPeerCertificate().valid_to);
    });
    return socket.on("data", onBytes);
  }

  #headers({ headers, deadline }: WireRequest): Buffer {
    const timeoutMs = Math.min(MAX_TIMEOUT_MS, Math.max(1, Math.ceil(deadline - this.#clock.wallMs())));
    const own = headerBlock([["grpc-timeout", `${timeoutMs}m`], ...Object.entries(headers)]);
    return Buffer.concat([this.#sameHeaders, own]);
  }
}

/** Returns a call that fails in the next tick of the event loop for lack of a connection. */
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
