import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { LINGER_MS } from "./unread-body.ts";

/**
 * Knows the connections of a server and how many requests run on each. Node's own `close` waits for connections that
 * never sent anything, and cuts none that becomes idle later: draining needs this table.
 */
export class SocketTable {
  /** The connections whose TLS is not agreed yet, by the address of their caller: nothing can be due on them. */
  readonly #arriving = new Map<string, Socket>();
  /** The answers that are due on each connection, and what they answer. */
  readonly #requests = new Map<Socket, Map<ServerResponse, IncomingMessage>>();
  /** The connections on which a request took too long to arrive, with that request as soon as its head was read. */
  readonly #overdue = new Map<Socket, IncomingMessage | undefined>();
  readonly #closing = new WeakSet<Socket>();
  #draining = false;
  #leaving = false;
  #whenEmpty: (() => void)[] = [];

  constructor(server: Server) {
    const isSecure = server instanceof SecureServer;
    server.on("connection", (socket: Socket) => {
      if (isSecure) this.#arrives(socket);
      else this.#stands(socket);
    });
    // The same connection in another object, which has its address.
    server.on("secureConnection", (socket: Socket) => {
      this.#arriving.delete(callerOf(socket));
      this.#stands(socket);
    });
    // An idle connection has expired. The next request may have come before, in a turn that took long: timers run first.
    server.on("timeout", (socket: Socket) => {
      const { bytesRead } = socket;
      setImmediate(() => {
        if (socket.bytesRead === bytesRead) socket.destroy();
      });
    });
    // Before whoever answers: an answer may be written in this very turn.
    server.prependListener("request", (request: IncomingMessage, response: ServerResponse) => {
      // Taken now: when the response has ended it no longer knows its socket.
      const { socket } = request;
      const running = this.#requests.get(socket);
      running?.set(response, request);
      if (this.#overdue.has(socket)) this.#overdue.set(socket, request);
      if (this.#leaving && !response.headersSent) response.setHeader("connection", "close");
      response.on("close", () => {
        if (running?.delete(response) && running.size === 0) this.#answered(socket);
      });
    });
  }

  /** The number of connections that are open. */
  get open(): number {
    return this.#arriving.size + this.#requests.size;
  }

  /** The number of connections on which no answer is due. */
  get idle(): number {
    return this.#arriving.size + [...this.#requests.values()].filter(({ size }) => size === 0).length;
  }

  /** Makes every answer from now on ask its client to open another connection for what comes next. */
  announceDrain(): void {
    this.#leaving = true;
  }

  /** Ends idle connections now and the others with their last response. Resolves when none is left. */
  drain(): Promise<void> {
    this.#draining = true;
    this.#leaving = true;
    for (const socket of this.#arriving.values()) socket.destroy();
    for (const [socket, running] of this.#requests) if (running.size === 0) socket.destroy();
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenEmpty.push(resolve));
  }

  /** Cuts all connections at once, with the answers under way on them. */
  destroyAll(): void {
    for (const socket of [...this.#arriving.values(), ...this.#requests.keys()]) socket.destroy();
  }

  /**
   * Returns whether an answer may be written past Node to a connection whose bytes its parser refused: when nothing is
   * due on it, or when what it refused is the body of the only request, which has no answer yet.
   */
  mayAnswer(socket: Socket): boolean {
    const running = [...(this.#requests.get(socket) ?? [])];
    return running.length < 2 && running.every(([response, { complete }]) => !complete && !response.headersSent);
  }

  /**
   * Calls `act` unless the request that arrives on the connection, whose time to arrive is over, is whole once the event
   * loop has read what the system holds: after a turn that took long, timers run before bytes are read that came in time.
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

  /** Returns the request that has been on the connection longest without a whole answer. */
  requestOn(socket: Socket): IncomingMessage | undefined {
    return this.#requests.get(socket)?.values().next().value;
  }

  /** Ends the connection with the last answer that is due on it. */
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
      // Node 20 closes only the first of the answers that are due: the others would run on and have no record.
      setImmediate(() => {
        for (const response of running.keys()) response.emit("close");
      });
    });
  }

  #closed(): void {
    if (this.open === 0) for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }

  #answered(socket: Socket): void {
    if (this.#draining || this.#closing.has(socket)) endConnection(socket);
  }
}

/**
 * Ends a connection behind `last`, which is sent on it first. A client that keeps its half open is cut after a second: no
 * time limit of Node is over such a connection.
 */
export function endConnection(socket: Socket, last = ""): void {
  if (socket.destroyed) return;
  socket.end(last);
  socket.once(
    "close",
    systemClock.after(LINGER_MS, () => socket.destroy()),
  );
}

/** Returns the address and port of whoever has opened a connection, which no two have at one time. */
function callerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
