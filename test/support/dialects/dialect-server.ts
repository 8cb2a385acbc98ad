import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { DIALECTS, type DialectName } from "../../../engine/backends/openai-compatible/dialect/dialect.ts";
import { freePort } from "../free-port.ts";
import { renderAnswer, type SpokenAnswer } from "./dialect-answer.ts";

export type ChatBody = Readonly<Record<string, unknown>>;

export type Reply =
  | { readonly kind: "answer"; readonly answer: SpokenAnswer }
  /**
   * Raw event data; objects are sent as JSON. `cut` ends the reply without its final mark, `reset` breaks the
   * connection, and `never` leaves it open.
   */
  | {
      readonly kind: "stream";
      readonly data: readonly (object | string)[];
      readonly end: "done" | "cut" | "reset" | "never";
    }
  | { readonly kind: "status"; readonly status: number; readonly body: object | string };

export type DialectServer = {
  readonly baseUrl: string;
  /** The bodies of chat requests, newest last. */
  readonly bodies: readonly ChatBody[];
  /** The bodies of token counts, newest last. */
  readonly counts: readonly ChatBody[];
  readonly closedSessions: readonly unknown[];
  readonly aborted: () => number;
  /** Resolves when the client has cancelled at least `count` replies. */
  abortedAtLeast(count: number): Promise<void>;
  /** Sets the next replies in order; afterwards the model answers again. */
  next(...replies: readonly Reply[]): void;
  readonly headers: readonly IncomingMessage["headers"][];
  stop(): Promise<void>;
};

export type DialectServerOptions = {
  /** Returns the model's reply to a request without preset reply. Default: `obedient`. */
  readonly model?: (body: ChatBody) => Reply;
  /** Returns the HTTP status of the health check. Default: 200. */
  readonly health?: () => number;
  /** The context window in tokens. Default: 32,768. */
  readonly contextWindow?: number;
  /** The HTTP status of token counts. Default: 200. */
  readonly countStatus?: number;
  /** Awaited before each token count is answered. Default: no wait. */
  readonly beforeCount?: () => Promise<void>;
  /** Returns the prompt tokens of a request, which token counts report. Default: placeholder tokens. */
  readonly promptTokens?: (body: ChatBody) => readonly number[];
  /** The number of tokens in every count. Default: 39, plus one per message. */
  readonly tokens?: number;
  /** Returns whether the chat template refuses messages with these roles. Default: never. */
  readonly refuses?: (roles: readonly string[]) => boolean;
  readonly port?: number;
  /** The spellings of the control tokens that the engine lists; `untold` omits the page. Default: one. */
  readonly spellings?: readonly string[] | "untold";
  /** Returns the load page; undefined leaves the request unanswered. */
  readonly load?: () => string | undefined;
};

/** Starts a stand-in at the process border: an HTTP server with the protocol and quirks of one engine. */
export async function startDialectServer(
  dialect: DialectName,
  options: DialectServerOptions = {},
): Promise<DialectServer> {
  const { paths, countKey } = DIALECTS[dialect];
  const bodies: ChatBody[] = [];
  const counts: ChatBody[] = [];
  const closedSessions: unknown[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const replies: Reply[] = [];
  let aborted = 0;
  let look = () => {};
  const contextWindow = options.contextWindow ?? 32_768;
  const spellings = options.spellings ?? ["<|im_end|>"];
  const pages: Readonly<Record<string, () => object | string | undefined>> = {
    "/v1/models": () => ({ object: "list", data: [{ id: "stand-in", max_model_len: contextWindow }] }),
    "/version": () => ({ version: "0.27.1" }),
    "/server_info": () => ({ version: "0.5.15" }),
    "/props": () => ({ build_info: "b1", default_generation_settings: { n_ctx: contextWindow } }),
    ...(paths.tokenizer === undefined || spellings === "untold"
      ? {}
      : { [paths.tokenizer]: () => tokenizerInfo(spellings) }),
    ...(options.load === undefined ? {} : { [paths.load[0] ?? ""]: options.load }),
  };

  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    headers.push(request.headers);
    if (request.url === paths.health) return send(response, options.health?.() ?? 200, "");
    const page = request.url === undefined ? undefined : pages[request.url];
    if (page) {
      const said = page();
      return said === undefined ? undefined : send(response, 200, said);
    }
    if (request.url === paths.count) {
      counts.push(body);
      await options.beforeCount?.();
      const roles = rolesOf(body);
      if (options.refuses?.(roles)) return send(response, 400, REFUSED);
      const tokens = options.promptTokens?.(body) ?? [1, 2, 3];
      const count = options.promptTokens ? tokens.length : (options.tokens ?? 39 + roles.length);
      return send(response, options.countStatus ?? 200, { [countKey]: count, tokens });
    }
    if (request.url !== undefined && request.url === paths.closeSession) {
      closedSessions.push(body.session_id);
      return send(response, 200, "");
    }
    if (request.url !== paths.generate) return send(response, 404, { detail: "Not Found" });
    bodies.push(body);
    response.on("close", () => {
      if (!response.writableFinished) aborted += 1;
      look();
    });
    if (options.refuses?.(rolesOf(body))) return send(response, 400, REFUSED);
    play(response, dialect, body, replies.shift() ?? (options.model ?? obedient)(body));
  });
  const port = options.port ?? (await freePort());
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    bodies,
    counts,
    closedSessions,
    headers,
    aborted: () => aborted,
    abortedAtLeast: (count) =>
      new Promise((resolve) => {
        look = () => {
          if (aborted >= count) resolve();
        };
        look();
      }),
    next: (...given) => {
      replies.push(...given);
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Returns the page of an engine that describes its tokenizer and all control tokens. */
function tokenizerInfo(spellings: readonly string[]): object {
  const tokens = Object.fromEntries(spellings.map((spelling, index) => [String(2_549 + index), spelling]));
  return { tokenizer_class: "TokenizersBackend", eos_token: spellings[0], added_tokens_decoder: tokens };
}

/** The reply of an engine whose chat template refuses a conversation, with the template's message. */
const REFUSED = { error: { type: "BadRequestError", code: 400, message: "System message must be at the beginning." } };

function rolesOf({ messages }: ChatBody): readonly string[] {
  return Array.isArray(messages) ? messages.map(({ role }) => role) : [];
}

/** Replies as a model that reasons on request, calls the given tool, and follows a schema. */
export function obedient(body: ChatBody): Reply {
  const answer = (spoken: SpokenAnswer): Reply => ({ kind: "answer", answer: spoken });
  const [tool] = Array.isArray(body.tools) ? body.tools : [];
  if (tool && body.tool_choice !== "none") {
    return answer({ calls: [{ id: "call-1", name: tool.function.name, arguments: ['{"a": 17', ', "b": 25}'] }] });
  }
  if (body.response_format) return answer({ text: ['{"sum":', " 42}"] });
  const thinks = JSON.stringify(body.chat_template_kwargs ?? {}).includes("true");
  return answer({ ...(thinks ? { reasoning: ["17 and", " 25"] } : {}), text: ["forty", "-two"] });
}

function play(response: ServerResponse, dialect: DialectName, body: ChatBody, reply: Reply): void {
  if (reply.kind === "status") {
    send(response, reply.status, reply.body);
    return;
  }
  const isNamed = typeof body.tool_choice === "object";
  const stream =
    reply.kind === "stream" ? reply : { data: renderAnswer[dialect](reply.answer, isNamed), end: "done" as const };
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const datum of stream.data) {
    response.write(`data: ${typeof datum === "string" ? datum : JSON.stringify(datum)}\n\n`);
  }
  if (stream.end === "done") response.end("data: [DONE]\n\n");
  else if (stream.end === "cut") response.end();
  // After the written data has been sent.
  else if (stream.end === "reset") setImmediate(() => response.destroy());
}

function send(response: ServerResponse, status: number, body: object | string): void {
  response.writeHead(status, { "content-type": typeof body === "string" ? "text/plain" : "application/json" });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<ChatBody> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  return text === "" ? {} : JSON.parse(text);
}
