import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { type Directive, parseDirective } from "./directive.ts";
import type { Pace } from "./pacer.ts";
import { nowUs, stamp } from "./stamp.ts";

const HOLE = "HOLE";

/** An event of Format A in the gateway's own size, so that what is compared passes as many bytes. */
const [BEFORE = "", AFTER = ""] = `data: ${JSON.stringify({
  id: "chatcmpl-000000000000000000000000",
  object: "chat.completion.chunk",
  created: 1_763_596_800,
  model: "svc-qwen",
  choices: [{ index: 0, delta: { content: HOLE }, logprobs: null, finish_reason: null }],
})}\n\n`.split(HOLE);

/** What the server says of itself, to whoever asks: enough for gateways that look for a model's name. */
const ABOUT = JSON.stringify({
  ...{ status: "ok", object: "list", data: [{ id: "svc-qwen", object: "model" }] },
  ...{ model_path: "svc-qwen", served_model_name: "svc-qwen" },
});

/**
 * Starts a server that plays directives as server-sent events over plain HTTP, in the body of a Format A request: what
 * the floors pass on. `reportLeft` gets the id of a request whose caller left before its end. Resolves to the port.
 */
export async function startSseOrigin(
  paceOf: (directive: Directive) => Pace | undefined,
  reportLeft: (id: string) => void,
): Promise<number> {
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      // What gateways ask a server about itself before they use it.
      response.setHeader("content-type", "application/json").end(ABOUT);
      return;
    }
    const { directive, streamed } = await askedFor(request);
    if (!streamed) {
      response.setHeader("content-type", "application/json").end(replyText(directive.events));
      return;
    }
    const pace = paceOf(directive);
    response.once("close", () => {
      pace?.end();
      if (!response.writableFinished && directive.id !== undefined) reportLeft(directive.id);
    });
    await play(directive, pace, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function play(directive: Directive, pace: Pace | undefined, response: ServerResponse): Promise<void> {
  const { events, eventsPerWrite } = directive;
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (let sent = 0; sent < events && !response.destroyed; sent += eventsPerWrite) {
    // Without a turn of the event loop it would never hear that its caller has left.
    if (sent > 0) await (pace ? pace.tick() : turn());
    const frame = BEFORE + stamp(nowUs()) + AFTER;
    const kept = response.write(frame.repeat(Math.min(eventsPerWrite, events - sent)));
    if (!kept && !response.destroyed) await drained(response);
  }
  response.end("data: [DONE]\n\n");
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}

/** Returns an answer in one piece, of so many events. */
function replyText(events: number): string {
  const choice = { index: 0, message: { role: "assistant", content: "word ".repeat(events) }, finish_reason: "stop" };
  const usage = { prompt_tokens: 1, completion_tokens: events, total_tokens: events + 1 };
  const head = { id: "chatcmpl-000000000000000000000000", object: "chat.completion", created: 1_763_596_800 };
  return JSON.stringify({ ...head, model: "svc-qwen", choices: [{ ...choice, logprobs: null }], usage });
}

/** Returns what a Format A request asks for, in its last message, and whether as a stream. */
async function askedFor(request: IncomingMessage): Promise<{ directive: Directive; streamed: boolean }> {
  const { messages, stream } = JSON.parse(await text(request)) as {
    readonly messages: readonly { readonly content: string }[];
    readonly stream?: boolean;
  };
  return { directive: parseDirective(messages.at(-1)?.content ?? ""), streamed: stream === true };
}
