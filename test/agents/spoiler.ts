import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A request's JSON: its shape is the agent's. */
// biome-ignore lint/suspicious/noExplicitAny: bodies of three formats are changed by their own names
export type Body = any;

/** Changes the body of a request of generation to `path`. */
export type Spoil = (body: Body, path: string) => void;

export const GENERATIONS = /chat\/completions|messages$|responses$/;

/** A proxy that changes what an agent asks for: as other versions, plugins and settings of agents do. */
export class Spoiler {
  readonly baseUrl: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async before(baseUrl: string, spoil: Spoil): Promise<Spoiler> {
    const server = createServer(async (incoming, outgoing) => {
      const pieces: Buffer[] = [];
      for await (const piece of incoming) pieces.push(piece);
      const { url: path = "/", method, headers } = incoming;
      const { "transfer-encoding": _, ...kept } = headers;
      const body = spoiled(Buffer.concat(pieces), path, spoil);
      const behind = request(new URL(path, baseUrl), { method, headers: { ...kept, "content-length": body.length } });
      behind.on("response", (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      });
      behind.on("error", () => outgoing.destroy());
      outgoing.on("close", () => behind.destroy());
      behind.end(body);
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    return new Spoiler(server);
  }

  end(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

function spoiled(body: Buffer, path: string, spoil: Spoil): Buffer {
  if (!GENERATIONS.test(path.replace(/\?.*$/, "")) || body.length === 0) return body;
  const read = JSON.parse(body.toString());
  spoil(read, path);
  return Buffer.from(JSON.stringify(read));
}
