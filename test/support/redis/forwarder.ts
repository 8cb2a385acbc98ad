import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A stable address in front of changing servers, like a Service or a proxy. */
export class Forwarder {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #port: number;

  private constructor(port: number) {
    this.#port = port;
    this.#server = createServer((client) => {
      const behind = connect(this.#port, "127.0.0.1");
      for (const [one, other] of [[client, behind] as const, [behind, client] as const]) {
        this.#open.add(one);
        one.on("error", () => {});
        one.on("close", () => {
          this.#open.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
  }

  static async to(port: number): Promise<Forwarder> {
    const forwarder = new Forwarder(port);
    await once(forwarder.#server.listen(0, "127.0.0.1"), "listening");
    return forwarder;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Forwards to another port from now on; open connections are closed. */
  turnTo(port: number): void {
    this.#port = port;
    for (const socket of this.#open) socket.destroy();
  }

  /** Forwards new connections to another port from now on. */
  turnNewTo(port: number): void {
    this.#port = port;
  }

  /** Closes all connections, and listens no more. */
  end(): void {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
  }
}
