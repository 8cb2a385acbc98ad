import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds for which the caller may read the last reply before its connection is closed. */
export const LINGER_MS = 1_000;

/**
 * The connections of a server with their running requests. Node's own `close` waits for connections that never sent a
 * byte, and does not close those that become idle later: draining needs this table.
 */
export class SocketTable {
  /** Connections during the TLS handshake, by the address of their caller: no reply can be due on them. */
  readonly #arriving = new Map<string, Socket>();
  /** The replies that are due on each connection, with their requests. */
  readonly #requests = new Map<Socket, Map<ServerResponse, IncomingMessage>>();
  /** Connections with a request that took too long to arrive, and that request once its head was read. */
  readonly #overdue = new Map<Socket, IncomingMessage | undefined>();
  readonly #closing = new WeakSet<Socket>();
  /** Connections that speak another protocol by now. */
  readonly #upgraded = new WeakSet<Socket>();
  #draining = false;
  #leaving = false;
  #whenEmpty: (() => void)[] = [];

  constructor(server: Server) {
    const isSecure = server instanceof SecureServer;
    server.on("connection", (socket: Socket) => {
      if (isSecure) this.#arrives(socket);
      else this.#stands(socket);
    });
    // The same connection as another object with the same address.
    server.on("secureConnection", (socket: Socket) => {
      this.#arriving.delete(callerOf(socket));
      this.#stands(socket);
    });
    // An idle connection has expired. After a long turn, timers run before a request that has already arrived.
    server.on("timeout", (socket: Socket) => {
      const { bytesRead } = socket;
      setImmediate(() => {
        if (socket.bytesRead === bytesRead) socket.destroy();
      });
    });
    // Before the request handlers, which may reply in this very turn.
    server.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
      // Read now: a response has no socket any more when it has ended.
      const { socket } = request;
      const running = this.#requests.get(socket);
      running?.set(response, request);
      if (this.#overdue.has(socket)) this.#overdue.set(socket, request);
      if (this.#leaving && !response.headersSent) response.setHeader("connection", "close");
      response.on("close", () => {
        const isIdle = running?.delete(response) && running.size === 0;
        if (isIdle && (this.#draining || this.#closing.has(socket))) endConnection(socket);
      });
    });
  }

  get open(): number {
    return this.#arriving.size + this.#requests.size;
  }

  /** Connections without a due reply. */
  get idle(): number {
    return this.#arriving.size + [...this.#requests.values()].filter(({ size }) => size === 0).length;
  }

  /** Adds `connection: close` to every reply from now on. */
  announceDrain(): void {
    this.#leaving = true;
  }

  /** Leaves a connection to its new protocol: draining waits for it, and does not close it. */
  upgraded(socket: Socket): void {
    this.#upgraded.add(socket);
  }

  /** Closes idle connections now and the others after their last reply. Resolves when none is open. */
  drain(): Promise<void> {
    this.#draining = true;
    this.#leaving = true;
    for (const socket of this.#arriving.values()) socket.destroy();
    for (const [socket, running] of this.#requests)
      if (running.size === 0 && !this.#upgraded.has(socket)) socket.destroy();
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenEmpty.push(resolve));
  }

  /** Closes all connections at once, including their running replies. */
  destroyAll(): void {
    for (const socket of [...this.#arriving.values(), ...this.#requests.keys()]) socket.destroy();
  }

  /**
   * Returns whether a reply may be written directly to a connection whose bytes the parser refused: if no reply is due
   * on it, or if the refused bytes are the body of the only request, which has no reply yet.
   */
  mayAnswer(socket: Socket): boolean {
    const running = [...(this.#requests.get(socket) ?? [])];
    return running.length < 2 && running.every(([response, { complete }]) => !complete && !response.headersSent);
  }

  /**
   * Calls `act` for a request that has timed out while arriving, unless it is complete once the event loop has read all
   * received bytes: after a long turn, timers run before bytes that arrived in time are read.
   */
  unlessWhole(socket: Socket, act: () => void): void {
    const arriving = [...(this.#requests.get(socket)?.values() ?? [])].find(({ complete }) => !complete);
    this.#overdue.set(socket, arriving);
    setImmediate(() => {
      const request = this.#overdue.get(socket);
      this.#overdue.delete(socket);
      if (!request?.complete) act();
    });
  }

  /** Returns the oldest request on the connection without a complete reply. */
  requestOn(socket: Socket): IncomingMessage | undefined {
    return this.#requests.get(socket)?.values().next().value;
  }

  /** Closes the connection after its last due reply. */
  closeWhenDone(socket: Socket): void {
    this.#closing.add(socket);
  }

  #arrives(socket: Socket): void {
    const caller = callerOf(socket);
    this.#arriving.set(caller, socket);
    socket.once("close", () => {
      if (this.#arriving.get(caller) === socket) this.#arriving.delete(caller);
      this.#closed();
    });
  }

  #stands(socket: Socket): void {
    const running = new Map<ServerResponse, IncomingMessage>();
    this.#requests.set(socket, running);
    socket.once("close", () => {
      this.#requests.delete(socket);
      this.#closed();
      if (running.size === 0) return;
      // Node 20 closes only the first of the due replies: the others would continue without a record.
      setImmediate(() => {
        for (const response of running.keys()) response.emit("close");
      });
    });
  }

  #closed(): void {
    if (this.open === 0) for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }
}

/**
 * Closes a connection after sending `last`. A client that keeps its side open is reset after a second: no timeout of
 * Node covers such a connection.
 */
export function endConnection(socket: Socket, last = ""): void {
  if (socket.destroyed) return;
  socket.end(last);
  socket.once(
    "close",
    systemClock.after(LINGER_MS, () => socket.destroy()),
  );
}

/** Returns the remote address and port, which identify an open connection. */
function callerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
