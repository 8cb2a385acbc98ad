import { once } from "node:events";
import { connect, type Socket } from "node:net";

export type RawReply = {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
};

export function head(line: string, ...fields: readonly string[]): string {
  return `${[line, ...fields].join("\r\n")}\r\n\r\n`;
}

/** Returns the bytes of a POST of JSON with a key. */
export function jsonPost(path: string, key: string, body: object, version = "1.1", ...more: readonly string[]): string {
  const text = JSON.stringify(body);
  const fields = ["host: test", `authorization: Bearer ${key}`, "content-type: application/json", ...more];
  return head(`POST ${path} HTTP/${version}`, ...fields, `content-length: ${Buffer.byteLength(text)}`) + text;
}

/** A connection for raw bytes. Text is sent as Latin-1. */
export class RawConnection {
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  #closed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (bytes) => {
      this.#received = Buffer.concat([this.#received, bytes]);
    });
    // A reset also closes the connection, and every wait below ends with it.
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#closed = true;
    });
  }

  static async open(port: number): Promise<RawConnection> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    return new RawConnection(socket);
  }

  /** Received text that was not yet returned as a reply. */
  get unread(): string {
    return this.#received.toString("latin1");
  }

  get closed(): boolean {
    return this.#closed;
  }

  write(bytes: string | Buffer): this {
    this.#socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
    return this;
  }

  /** Half-closes the connection: the peer can still answer. */
  endWriting(): this {
    this.#socket.end();
    return this;
  }

  /** Returns the next complete reply. Throws if the connection closes before. `toHead` for replies without a body. */
  async reply(toHead = false): Promise<RawReply> {
    for (;;) {
      const parsed = parseReply(this.#received.toString("latin1"), this.#closed, toHead);
      if (parsed) {
        this.#received = this.#received.subarray(parsed.length);
        return parsed.reply;
      }
      if (this.#closed) throw new Error("the connection closed before a whole reply came");
      await this.#moved();
    }
  }

  async until(text: string): Promise<void> {
    while (!this.unread.includes(text)) {
      if (this.#closed) throw new Error("the connection closed before the text came");
      await this.#moved();
    }
  }

  async untilClosed(): Promise<void> {
    if (this.#closed) return;
    this.#socket.once("end", () => this.#socket.destroy());
    if (this.#socket.readableEnded) this.#socket.destroy();
    await once(this.#socket, "close");
  }

  /** Writes `piece` until the connection closes or `bytes` are written; returns the accepted bytes. */
  async pour(piece: Buffer, bytes: number): Promise<number> {
    for (let written = 0; written < bytes && !this.#closed; written += piece.length)
      if (!this.#socket.write(piece)) await this.#drained();
    return this.#socket.bytesWritten - this.#socket.writableLength;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Closes it with a reset, as the system does for a process that crashed with unread data. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  pause(): void {
    this.#socket.pause();
  }

  takeOnce(): void {
    this.#socket.once("data", () => this.#socket.pause());
    this.#socket.resume();
  }

  async #moved(): Promise<void> {
    await anyOf(this.#socket, ["data", "close", "end"]);
    if (this.#socket.readableEnded) this.#closed = true;
  }

  #drained(): Promise<void> {
    return anyOf(this.#socket, ["drain", "close"]);
  }
}

function anyOf(socket: Socket, events: readonly string[]): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const event of events) socket.off(event, done);
      resolve();
    };
    for (const event of events) socket.on(event, done);
  });
}

function parseReply(text: string, closed: boolean, toHead: boolean): { reply: RawReply; length: number } | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return undefined;
  const [statusLine = "", ...lines] = text.slice(0, end).split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  if (Number.isNaN(status)) throw new Error("what came is no reply");
  const headers = new Map(lines.map((line) => [line.split(":", 1)[0]?.toLowerCase() ?? "", fieldValue(line)]));
  const start = end + 4;
  if (toHead || status < 200 || status === 204) return { reply: { status, headers, body: "" }, length: start };
  const body = bodyOf(text, start, headers, closed);
  return body && { reply: { status, headers, body: body.text }, length: body.end };
}

function fieldValue(line: string): string {
  return line.slice(line.indexOf(":") + 1).trim();
}

function bodyOf(text: string, start: number, headers: ReadonlyMap<string, string>, closed: boolean) {
  const length = headers.get("content-length");
  if (length !== undefined) {
    const end = start + Number(length);
    return text.length < end ? undefined : { text: text.slice(start, end), end };
  }
  if (headers.get("transfer-encoding") === "chunked") return chunkedBody(text, start);
  return closed ? { text: text.slice(start), end: text.length } : undefined;
}

function chunkedBody(text: string, start: number): { text: string; end: number } | undefined {
  let body = "";
  for (let at = start; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (Number.isNaN(size)) throw new Error("a chunk has no size");
    if (text.length < next) return undefined;
    if (size === 0) return { text: body, end: next };
    body += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = next;
  }
}
