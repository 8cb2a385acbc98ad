import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";

/** An event or error frame of a socket. */
export type FrameEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

type Target = { readonly port: number; readonly key: string };

/** What ends an answer. */
const LAST = /^(?:error|response\.(?:completed|incomplete|failed))$/;

/** A client of responses over WebSocket, which reads frames in their order. */
export class FrameClient {
  readonly ws: WebSocket;
  readonly events: FrameEvent[] = [];
  readonly closed: Promise<number>;
  #wake = () => {};

  constructor(ws: WebSocket) {
    this.ws = ws;
    this.closed = once(ws, "close").then(([code]) => code as number);
    ws.on("error", () => {});
    ws.on("message", (data, isBinary) => {
      if (isBinary) throw new Error("a frame is binary");
      this.events.push(JSON.parse(String(data)));
      this.#wake();
    });
    ws.on("close", () => this.#wake());
  }

  /** Opens a socket with the default key of a gateway. Rejects if the upgrade is refused. */
  static async open(target: Target, headers: Readonly<Record<string, string>> = {}): Promise<FrameClient> {
    const ws = upgrade(target, headers);
    const client = new FrameClient(ws);
    await Promise.race([once(ws, "open"), once(ws, "close").then(() => Promise.reject(new Error("no socket")))]);
    return client;
  }

  send(frame: unknown): void {
    this.ws.send(typeof frame === "string" || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  /** Resolves to the events of the next answer, of one lane if it has a name. Rejects if the socket ends before. */
  async answer(streamId?: string): Promise<FrameEvent[]> {
    for (;;) {
      const own = this.events.filter(({ stream_id }) => stream_id === streamId);
      const end = own.findIndex(({ type }) => LAST.test(type));
      if (end !== -1) {
        const answer = own.slice(0, end + 1);
        for (const event of answer) this.events.splice(this.events.indexOf(event), 1);
        return answer;
      }
      if (this.ws.readyState === WebSocket.CLOSED) throw new Error(`closed behind ${JSON.stringify(this.events)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Sends a frame of the default lane. Resolves to the response object, or to the error frame. */
  async ask(fields: object): Promise<Answer> {
    this.send({ type: "response.create", ...fields });
    const events = await this.answer();
    const last = events.at(-1);
    return ((last?.response ?? last) as Answer | undefined) ?? ({} as Answer);
  }

  close(): Promise<number> {
    this.ws.close();
    return this.closed;
  }
}

export type Answer = {
  readonly id: string;
  readonly status: string | number;
  readonly output: readonly Readonly<Record<string, unknown>>[];
  readonly output_text?: string;
  readonly error?: { readonly code: string; readonly message: string; readonly param: string | null } | null;
} & Readonly<Record<string, unknown>>;

/** Asks for a socket. */
export function upgrade({ port, key }: Target, headers: Readonly<Record<string, string>> = {}, path = "/v1/responses") {
  const ws = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  ws.on("error", () => {});
  return ws;
}

/** Asks for a socket. Resolves to the status, headers and text of the refusal; a socket is 101. */
export async function upgradeReply(target: Target, headers: Readonly<Record<string, string>> = {}, path?: string) {
  const ws = upgrade(target, headers, path);
  const [what, response] = (await Promise.race([
    once(ws, "upgrade").then(([reply]) => ["upgraded", reply]),
    once(ws, "unexpected-response").then(([, reply]) => ["refused", reply]),
  ])) as [string, IncomingMessage];
  let text = "";
  if (what === "refused") for await (const chunk of response) text += String(chunk);
  ws.terminate();
  return { status: response.statusCode, headers: response.headers, text };
}
