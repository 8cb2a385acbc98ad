import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import { Agent, request } from "node:https";
import { connect as connectTls, type TLSSocket } from "node:tls";

export type Edge = {
  readonly port: number;
  readonly ca: Buffer;
  readonly key: string;
};

type Tls = { readonly host: string; readonly port: number; readonly ca: Buffer; readonly servername: string };

const tlsOf = ({ port, ca }: Edge): Tls => ({ host: "127.0.0.1", port, ca, servername: "localhost" });

const headersOf = ({ key }: Edge) => ({ authorization: `Bearer ${key}`, "content-type": "application/json" });

export class Http1Caller {
  readonly #edge: Edge;
  readonly #agent: Agent;

  constructor(edge: Edge) {
    this.#edge = edge;
    this.#agent = new Agent({ keepAlive: true, ...tlsOf(edge) });
  }

  async post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const { port } = this.#edge;
    const headers = headersOf(this.#edge);
    const where = { host: "127.0.0.1", port, path, method: "POST", agent: this.#agent };
    const sent = request({ ...where, headers, ...(signal && { signal }) });
    sent.end(JSON.stringify(body));
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    const known = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
    return new Response(ReadableStream.from(answer), { status: answer.statusCode ?? 0, headers: known });
  }

  close(): void {
    this.#agent.destroy();
  }
}

export class Http2Caller {
  readonly #edge: Edge;
  #session: ClientHttp2Session | undefined;
  #opened = 0;

  constructor(edge: Edge) {
    this.#edge = edge;
  }

  get opened(): number {
    return this.#opened;
  }

  async post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const head = { ":method": "POST", ":path": path, ...headersOf(this.#edge) };
    const stream = this.#connected().request(head, signal && { signal });
    stream.end(JSON.stringify(body));
    const [headers] = (await once(stream, "response")) as [Record<string, string | number>];
    const known = Object.entries(headers).filter(([name]) => !name.startsWith(":"));
    const status = Number(headers[":status"]);
    return new Response(ReadableStream.from(stream), {
      status,
      headers: known.map(([name, value]) => [name, String(value)]),
    });
  }

  close(): void {
    this.#session?.destroy();
  }

  #connected(): ClientHttp2Session {
    const session = this.#session;
    if (session && !session.closed && !session.destroyed) return session;
    this.#opened += 1;
    const opened = connect(`https://127.0.0.1:${this.#edge.port}`, tlsOf(this.#edge));
    opened.on("error", () => {});
    this.#session = opened;
    return opened;
  }
}

export async function rawConnection(edge: Edge): Promise<TLSSocket> {
  const socket = connectTls({ ...tlsOf(edge), ALPNProtocols: ["http/1.1"] });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}
