import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { nowUs } from "../processes/stamp.ts";
import type { Target } from "../processes/targets.ts";

const LAST_CHUNK = "0\r\n\r\n";

/** A client with one connection, on which it asks for chunked answers one after the other. */
export class RequestClient {
  readonly #socket: Socket;
  #tail = "";
  #answered: (() => void) | undefined;
  #failed: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (bytes) => {
      this.#tail = (this.#tail + bytes.toString("latin1")).slice(-LAST_CHUNK.length);
      if (this.#tail === LAST_CHUNK) this.#answered?.();
    });
    socket.on("error", (error) => this.#failed?.(error));
    socket.on("close", () => this.#failed?.(new Error("the connection was closed")));
  }

  static async open(target: Target): Promise<RequestClient> {
    const socket = connect({ port: target.port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    return new RequestClient(socket);
  }

  /** Resolves to the time from the request's writing to the last byte of its answer, in milliseconds. */
  async ask(request: string): Promise<number> {
    this.#tail = "";
    const sentUs = nowUs();
    await new Promise<void>((resolve, reject) => {
      this.#answered = resolve;
      this.#failed = reject;
      this.#socket.write(request);
    });
    return (nowUs() - sentUs) / 1000;
  }

  close(): void {
    this.#failed = undefined;
    this.#socket.destroy();
  }
}
