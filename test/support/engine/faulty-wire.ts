import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** The delay of every piece on a slow wire, in milliseconds. */
const DELAY_MS = 50;

/**
 * A TCP proxy between a gateway and a node. It forwards bytes until the test injects a fault: of the network, or of a
 * node that sends garbage, at an exact moment.
 */
export class FaultyWire {
  readonly #server: Server;
  readonly #pairs = new Set<{ readonly near: Socket; readonly far: Socket }>();
  #mode: "pass" | "lose" | "delay" = "pass";
  #port = 0;
  #lostBytes = 0;

  private constructor(target: string) {
    const colon = target.lastIndexOf(":");
    this.#server = createServer((near) => {
      const far = connect(Number(target.slice(colon + 1)), target.slice(0, colon));
      const pair = { near, far };
      this.#pairs.add(pair);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        from.on("data", (bytes) => {
          if (this.#mode === "pass") to.write(bytes);
          else if (this.#mode === "delay") this.#writeLater(from, to, bytes);
          else this.#lostBytes += bytes.length;
        });
        from.on("error", () => {});
        from.on("close", () => {
          this.#pairs.delete(pair);
          to.destroy();
        });
      }
    });
  }

  static async start(target: string): Promise<FaultyWire> {
    const wire = new FaultyWire(target);
    await new Promise<void>((resolve) => wire.#server.listen(0, "127.0.0.1", resolve));
    wire.#port = (wire.#server.address() as AddressInfo).port;
    return wire;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get lostBytes(): number {
    return this.#lostBytes;
  }

  /** Acts as a node that died: connections are reset, new ones are refused. */
  cut(): void {
    this.#server.close();
    this.reset();
  }

  /** Acts as a node that vanished: connections are reset, new ones are never answered. */
  vanish(): void {
    this.#mode = "lose";
    for (const { near } of this.#pairs) near.resetAndDestroy();
  }

  /** Acts as a half-open connection: bytes in either direction are lost. */
  silence(): void {
    this.#mode = "lose";
  }

  /** Acts as an overloaded network: all bytes arrive, but late. */
  slow(): void {
    this.#mode = "delay";
  }

  /** Forwards bytes again, also on old connections, even after losses. */
  pass(): void {
    this.#mode = "pass";
  }

  /** Forwards bytes again. Connections with losses cannot continue: they end, as by keepalive. */
  restore(): void {
    if (this.#mode === "lose") this.reset();
    this.#mode = "pass";
  }

  reset(): void {
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.destroy();
    }
  }

  /** Sends garbage to the gateway, in the middle of current calls. The node's bytes are still forwarded. */
  garble(): void {
    for (const { near } of this.#pairs) near.write(Buffer.alloc(4_096, 0xa5));
  }

  #writeLater(from: Socket, to: Socket, bytes: Buffer): void {
    from.pause();
    setTimeout(() => {
      to.write(bytes);
      from.resume();
    }, DELAY_MS);
  }

  /** Closes the wire with all its connections. Idempotent. */
  close(): void {
    this.cut();
  }
}
