import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { ApiError, toApiError } from "../../errors.ts";
import { errorBody, statusOf } from "../../formats/error-envelope.ts";
import type { Principal } from "../../keys/principal.ts";
import { authenticate } from "../access/auth.ts";
import { checkHead } from "../access/request-head.ts";
import { refuseInTrouble } from "../body/request-body.ts";
import { answerText } from "../connection/broken-request.ts";
import { refusedUpgrade, retryHeaders } from "../connection/envelope.ts";
import { endConnection, LINGER_MS, type SocketTable } from "../connection/sockets.ts";
import { writeDown } from "../record/access-log.ts";
import { clientAddress } from "../record/client-address.ts";
import { RequestRecord } from "../record/request-record.ts";
import { traceContextOf } from "../record/trace-context.ts";
import { FRAME_LABELS, ResponseSocket, type SocketDeps } from "./response-socket.ts";

/** WebSockets of one key, and of this gateway. */
const MAX_OF_KEY = 32;
const MAX_SOCKETS = 4_096;
/** The longest time in which the sockets of a proxy that drains close, in milliseconds: not all clients return at once. */
const PROXY_DRAIN_MS = 5_000;

/** What a socket counts for. */
type Owner = { readonly keyId: string; readonly peer: string };

/**
 * Accepts WebSockets for responses. One that is not wanted now gets 426, after which agents use HTTP at once: they retry
 * for seconds after any other status. The handshake's 101 never names a model: Codex takes another one than it asked
 * for as a flagged account.
 */
export class SocketUpgrades {
  readonly #deps: SocketDeps;
  readonly #table: SocketTable;
  readonly #server: WebSocketServer;
  readonly #open = new Map<ResponseSocket, Owner>();
  readonly #ids = new WeakMap<IncomingMessage, string>();
  readonly #refusals = new WeakMap<Duplex, () => void>();
  #draining = false;

  constructor(server: Server, table: SocketTable, deps: SocketDeps) {
    this.#deps = deps;
    this.#table = table;
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      maxPayload: deps.bodies.maxBodyBytes,
      // 40 microseconds of each event, and a megabyte of each socket.
      perMessageDeflate: false,
      // The scan of a frame checks it.
      skipUTF8Validation: true,
      // Its types lack the option: milliseconds until a caller that does not answer a close is cut.
      ...{ closeTimeout: LINGER_MS },
    });
    // The library destroys a connection whose handshake it refuses.
    this.#server.on("wsClientError", (_error, socket) => this.#refusals.get(socket)?.());
    this.#server.on("headers", (lines, request) => {
      const id = this.#ids.get(request);
      lines.push(`x-request-id: ${id}`, `request-id: ${id}`);
    });
    server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      void this.#upgrade(request, socket, head);
    });
  }

  get open(): number {
    return this.#open.size;
  }

  /**
   * Accepts no further sockets. Those open close in the second half of `graceMs` milliseconds, when proxies in front send
   * their clients elsewhere already, or after the answers that run then.
   */
  drain(graceMs: number): void {
    this.#draining = true;
    for (const socket of this.#open.keys()) socket.leaveAfter(((1 + this.#deps.bodies.random()) / 2) * graceMs);
  }

  /** Closes the sockets whose connections come from an address, a proxy that drains, as `drain` does. */
  drainFrom(peer: string): void {
    for (const [socket, owner] of this.#open)
      if (owner.peer === peer) socket.leaveAfter(this.#deps.bodies.random() * PROXY_DRAIN_MS);
  }

  /** It never rejects. */
  async #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const { sinks, auth } = this.#deps;
    const { headers, rawHeaders } = request;
    const { clock, tracing, trustedHops } = sinks;
    const address = clientAddress(socket.remoteAddress, headers["x-forwarded-for"], trustedHops);
    const record = new RequestRecord({ labels: FRAME_LABELS, trace: traceContextOf({}), headers, tracing, clock });
    this.#ids.set(request, record.requestId);
    // Until a WebSocket has its own.
    const ignore = () => {};
    socket.on("error", ignore);
    const end = (code: number, bytesOut: number, more?: { readonly socket_end: string }) => {
      const closed = record.closed(code, true);
      const fields = { transport: "websocket", ...more } as const;
      writeDown(closed, { method: request.method, socket: fields, address, headers, bytesOut }, sinks);
    };
    const refuse = (cause: ApiError) => {
      record.refused(cause.detail);
      const error = refusedUpgrade(cause, headers["user-agent"]);
      const status = statusOf(error, "a");
      const more = {
        ...retryHeaders(error, status),
        ...(error.code === "invalid_api_key" && { "www-authenticate": "Bearer" }),
        ...(error.code === "upgrade_required" && { upgrade: "HTTP/1.1" }),
      };
      const text = answerText(status, JSON.stringify(errorBody(error, "a", record.requestId)), record.requestId, more);
      endConnection(socket, text);
      end(status, Buffer.byteLength(text));
    };
    try {
      checkHead(request);
      const principal = await authenticate({ record, rawHeaders, address, onTooMany: ignore }, auth);
      this.#refuseUnwanted(principal);
      if (socket.destroyed) {
        end(0, 0);
        return;
      }
      this.#refusals.set(socket, () => refuse(notWanted()));
      this.#server.handleUpgrade(request, socket, head, (ws) => {
        this.#table.upgraded(socket);
        socket.off("error", ignore);
        const accepted = new ResponseSocket(ws, socket, { rawHeaders, address, headers, principal }, this.#deps);
        this.#open.set(accepted, { keyId: principal.keyId, peer: clientAddress(socket.remoteAddress, undefined, 0) });
        ws.on("close", () => {
          this.#open.delete(accepted);
          this.#deps.stats.socketEnds.inc({ reason: accepted.end });
          end(101, socket.bytesWritten, { socket_end: accepted.end });
        });
      });
    } catch (error) {
      refuse(toApiError(error));
    }
  }

  /** Throws `ApiError` `upgrade_required` while no further socket is wanted. */
  #refuseUnwanted({ keyId }: Principal): void {
    const { overload, random } = this.#deps.bodies;
    let ofKey = 0;
    for (const owner of this.#open.values()) if (owner.keyId === keyId) ofKey += 1;
    if (this.#draining || ofKey >= MAX_OF_KEY || this.#open.size >= MAX_SOCKETS) throw notWanted();
    try {
      refuseInTrouble(overload, random);
    } catch {
      throw notWanted();
    }
  }
}

function notWanted(): ApiError {
  const text = "No WebSocket can be opened here now. Send a POST request instead.";
  return new ApiError("upgrade_required", text);
}
