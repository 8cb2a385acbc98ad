import { createServer, request, type Server } from "node:http";
import { freePort } from "../free-port.ts";

/** A server between a node and an engine that passes everything on and keeps the bodies of requests. */
export class EngineTap {
  readonly #server: Server;
  readonly #bodies: { readonly path: string; readonly body: string }[] = [];
  readonly baseUrl: string;

  private constructor(engineUrl: string, port: number) {
    this.baseUrl = `http://127.0.0.1:${port}`;
    this.#server = createServer((incoming, outgoing) => {
      const { method = "GET", url: path = "/", headers } = incoming;
      const pieces: Buffer[] = [];
      incoming.on("data", (piece) => pieces.push(piece));
      incoming.on("end", () => {
        const body = Buffer.concat(pieces);
        this.#bodies.push({ path, body: body.toString() });
        const onward = request(`${engineUrl}${path}`, { method, headers }, (reply) => {
          outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
          reply.pipe(outgoing);
        });
        onward.on("error", () => outgoing.destroy());
        outgoing.on("close", () => onward.destroy());
        onward.end(body);
      });
    }).listen(port, "127.0.0.1");
  }

  static async start(engineUrl: string): Promise<EngineTap> {
    const tap = new EngineTap(engineUrl, await freePort());
    await new Promise((resolve) => tap.#server.once("listening", resolve));
    return tap;
  }

  bodiesOf(path: string): readonly string[] {
    return this.#bodies.filter((one) => one.path === path).map(({ body }) => body);
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }
}
