import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** The delay of every piece on a slow wire, in milliseconds. */
const DELAY_MS = 50;

/**
 * Lies between a gateway and a node: it passes bytes on until it is told to do something else. It is for faults of the
 * network, and of nodes that fall into nonsense, at the very moment that a test wants them.
 */
export class FaultyWire {
  readonly #server: Server;
  readonly #pairs = new Set<{ readonly near: Socket; readonly far: Socket }>();
  /** What becomes of the bytes that come. */
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

  /** Starts a wire to `target`, `host:port`. */
  static async start(target: string): Promise<FaultyWire> {
    const wire = new FaultyWire(target);
    await new Promise<void>((resolve) => wire.#server.listen(0, "127.0.0.1", resolve));
    wire.#port = (wire.#server.address() as AddressInfo).port;
    return wire;
  }

  /** The address to connect to, `host:port`. */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** The number of bytes that were lost so far. */
  get lostBytes(): number {
    return this.#lostBytes;
  }

  /** Acts as a node that died: connections are reset, new ones are refused. */
  cut(): void {
    this.#server.close();
    this.reset();
  }

  /** Acts as a node that is gone without a word: connections are reset, new ones are never answered. */
  vanish(): void {
    this.#mode = "lose";
    for (const { near } of this.#pairs) near.resetAndDestroy();
  }

  /** Acts as a half-open connection: what is sent in either direction is lost. */
  silence(): void {
    this.#mode = "lose";
  }

  /** Acts as a network that is overloaded: everything arrives, and late. */
  slow(): void {
    this.#mode = "delay";
  }

  /** Passes on again what comes, on old connections too, whatever they have lost. */
  pass(): void {
    this.#mode = "pass";
  }

  /** Passes on again what comes. Connections that have lost something cannot go on: they end, as by a keep-alive. */
  restore(): void {
    if (this.#mode === "lose") this.reset();
    this.#mode = "pass";
  }

  /** All connections are reset, new ones are taken. */
  reset(): void {
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.destroy();
    }
  }

  /** Nonsense towards the gateway, in the middle of whatever was under way. What the node sends still gets through. */
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

  /** Closes the wire with all its connections. It may be called again. */
  close(): void {
    this.cut();
  }
}
