import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import type { Pace } from "./pacer.ts";
import { type BenchFormat, type Directive, formatOfPath, nowUs, parseDirective, stamp } from "./requests.ts";

const HOLE = "HOLE";

const FRAMES: Readonly<Record<BenchFormat, Frame>> = {
  chat: frameOf(undefined, {
    id: "chatcmpl-000000000000000000000000",
    object: "chat.completion.chunk",
    created: 1_763_596_800,
    model: "svc-qwen",
    choices: [{ index: 0, delta: { content: HOLE }, logprobs: null, finish_reason: null }],
  }),
  messages: frameOf("content_block_delta", {
    type: "content_block_delta",
    index: 0,
    delta: { type: "text_delta", text: HOLE },
  }),
  responses: frameOf("response.output_text.delta", {
    type: "response.output_text.delta",
    sequence_number: 1_000,
    item_id: "msg_000000000000000000000000",
    output_index: 0,
    content_index: 0,
    delta: HOLE,
    logprobs: [],
    obfuscation: "0000",
  }),
};

type Frame = { readonly before: string; readonly after: string };

function frameOf(event: string | undefined, data: object): Frame {
  const name = event === undefined ? "" : `event: ${event}\n`;
  const [before = "", after = ""] = `${name}data: ${JSON.stringify(data)}\n\n`.split(HOLE);
  return { before, after };
}

const ABOUT = JSON.stringify({
  ...{ status: "ok", object: "list", data: [{ id: "svc-qwen", object: "model" }] },
  ...{ model_path: "svc-qwen", served_model_name: "svc-qwen" },
});

/** Starts the origin of the references: it plays directives as server-sent events over HTTP. Resolves to the port. */
export async function startSseOrigin(paceOf: (directive: Directive) => Pace | undefined): Promise<number> {
  const server = createServer(async (request, response) => {
    if (request.method === "GET") {
      // Gateways query the server before they use it.
      response.setHeader("content-type", "application/json").end(ABOUT);
      return;
    }
    const { directive, streamed, format } = await askedFor(request);
    if (!streamed) {
      response.setHeader("content-type", "application/json").end(replyText(directive.events));
      return;
    }
    const pace = paceOf(directive);
    response.once("close", () => pace?.end());
    await play(directive, FRAMES[format], pace, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function play(
  directive: Directive,
  { before, after }: Frame,
  pace: Pace | undefined,
  response: ServerResponse,
): Promise<void> {
  const { events, eventsPerWrite } = directive;
  const closed = new Promise((resolve) => response.once("close", resolve));
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (let sent = 0; sent < events && !response.destroyed; sent += eventsPerWrite) {
    // Without a tick of the event loop a cancellation is never detected.
    if (sent > 0) await (pace ? pace.tick() : turn());
    const frame = before + stamp(nowUs()) + after;
    const kept = response.write(frame.repeat(Math.min(eventsPerWrite, events - sent)));
    if (!kept && !response.destroyed) await Promise.race([once(response, "drain"), closed]);
  }
  response.end("data: [DONE]\n\n");
}

function replyText(events: number): string {
  const choice = { index: 0, message: { role: "assistant", content: "word ".repeat(events) }, finish_reason: "stop" };
  const usage = { prompt_tokens: 1, completion_tokens: events, total_tokens: events + 1 };
  const head = { id: "chatcmpl-000000000000000000000000", object: "chat.completion", created: 1_763_596_800 };
  return JSON.stringify({ ...head, model: "svc-qwen", choices: [{ ...choice, logprobs: null }], usage });
}

async function askedFor(
  request: IncomingMessage,
): Promise<{ directive: Directive; streamed: boolean; format: BenchFormat }> {
  const { messages, input, stream } = JSON.parse(await text(request)) as {
    readonly messages?: readonly { readonly content: string }[];
    readonly input?: string;
    readonly stream?: boolean;
  };
  const directive = parseDirective(messages?.at(-1)?.content ?? input ?? "");
  return { directive, streamed: stream === true, format: formatOfPath(request.url ?? "") };
}
