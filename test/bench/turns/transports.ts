import { request } from "node:http";
import { socketSession } from "./socket-session.ts";

/** A conversation as the API of responses writes it. */
export type Item = Readonly<Record<string, unknown>>;

export type Target = { readonly port: number; readonly key: string };

/** A caller with one conversation. */
export type Session = {
  /** Makes the next turn ready: `fresh` items behind all before. Its `send` resolves when the answer has ended. */
  ready(fresh: readonly Item[]): { readonly send: () => Promise<void> };
  close(): void;
};

/** How callers send their turns. */
export type Transport = { readonly name: string; readonly open: (target: Target, tools: readonly object[]) => Session };

/** The answer of the bench's engine. */
const ANSWER: Item = { type: "message", role: "assistant", content: [{ type: "output_text", text: "forty-two" }] };

/** Every turn brings the whole conversation. */
const http: Transport = {
  name: "HTTP",
  open(target, tools) {
    const said: Item[] = [];
    return {
      ready(fresh) {
        said.push(...fresh);
        // Written before it is sent: it would hold up a neighbour that this process reads.
        const body = Buffer.from(JSON.stringify({ model: "svc-qwen", stream: true, store: false, tools, input: said }));
        said.push(ANSWER);
        return { send: () => posted(target, "/v1/responses", body) };
      },
      close: () => {},
    };
  },
};

/** The transports that the bench measures. */
export const TRANSPORTS: readonly Transport[] = [http, { name: "socket", open: socketSession }];

/** Resolves when the reply has ended. Rejects for a status that is not 200. */
function posted({ port, key }: Target, path: string, body: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({ port, host: "127.0.0.1", path, method: "POST" }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
      });
      response.once("end", () => {
        if (response.statusCode === 200 && text.includes("response.completed")) resolve();
        else reject(new Error(`a turn was answered ${response.statusCode}: ${text.slice(-500)}`));
      });
    });
    call.once("error", reject);
    call.setHeader("authorization", `Bearer ${key}`);
    call.setHeader("content-type", "application/json");
    call.end(body);
  });
}
