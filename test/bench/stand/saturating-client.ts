import { connect, type Socket } from "node:net";
import type { Target } from "../load.ts";
import { nowUs } from "../processes/requests.ts";

const REQUESTS_PER_CONNECTION = 900;

/** Requests unstreamed replies from one target; each connection sends its next request after the reply. */
export class SaturatingClient {
  readonly #target: Target;
  readonly #request: string;
  readonly #sockets = new Set<Socket>();
  #timesMs: number[] = [];
  #over = false;
  #failure: Error | undefined;

  constructor(target: Target, request: string, connections: number) {
    this.#target = target;
    this.#request = request;
    for (let at = 0; at < connections; at += 1) this.#connect();
  }

  start(): void {
    this.#timesMs = [];
  }

  /** Returns the times of whole requests in milliseconds. Throws if one was refused or cut. */
  read(): readonly number[] {
    if (this.#failure) throw this.#failure;
    return this.#timesMs;
  }

  close(): void {
    this.#over = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(): void {
    const socket = connect({ port: this.#target.port, host: "127.0.0.1", noDelay: true });
    this.#sockets.add(socket);
    let had = "";
    let sentUs = 0;
    let asked = 0;
    const ask = () => {
      had = "";
      asked += 1;
      sentUs = nowUs();
      socket.write(this.#request);
    };
    socket.on("connect", ask);
    socket.on("data", (bytes) => {
      had += bytes.toString("latin1");
      if (!isWholeAnswer(had)) return;
      if (!had.startsWith("HTTP/1.1 200")) this.#fail(`answered "${had.slice(0, 200)}"`);
      this.#timesMs.push((nowUs() - sentUs) / 1000);
      if (asked < REQUESTS_PER_CONNECTION && !/^connection: close/im.test(had)) ask();
      else socket.destroy();
    });
    socket.on("error", (error) => this.#fail(error.message));
    socket.on("close", () => {
      this.#sockets.delete(socket);
      if (!this.#over && !this.#failure) this.#connect();
    });
  }

  #fail(why: string): void {
    if (this.#over) return;
    this.#failure ??= new Error(`${this.#target.name}: ${why}`);
    this.close();
  }
}

function isWholeAnswer(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return false;
  const length = /^content-length: *(\d+)/im.exec(text.slice(0, headEnd))?.[1];
  if (length === undefined) return text.endsWith("0\r\n\r\n");
  return text.length >= headEnd + 4 + Number(length);
}
