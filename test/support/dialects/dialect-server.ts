import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { DIALECTS } from "../../../engine/backends/openai-compatible/engines/dialects.ts";
import type { DialectName } from "../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { freePort } from "../free-port.ts";
import { EVENTS } from "./dialect-events.ts";
import { renderChat, type SpokenAnswer, toText, toTokens } from "./stand-in-text.ts";

export type Body = Readonly<Record<string, unknown>>;

/** A generation as the stand-in's model sees it. */
export type Asked = {
  readonly body: Body;
  readonly tokens: readonly number[];
  readonly prompt: string;
  readonly maxTokens: number;
  /** The grammar of the output; "" for none. */
  readonly grammar: string;
  readonly rank?: number | undefined;
};

export type Reply =
  | { readonly kind: "answer"; readonly answer: SpokenAnswer }
  /**
   * Raw event data; objects are sent as JSON, and `{ said }` as a piece of the answer. `cut` ends the reply without its final mark, `reset` breaks the
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
  readonly bodies: readonly Body[];
  readonly rendered: readonly Body[];
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
  readonly model?: (asked: Asked) => Reply;
  /** Returns the status of the health page; undefined for no answer. Default: 200. */
  readonly health?: () => number | undefined;
  /** The context window in tokens. Default: 32,768. */
  readonly contextWindow?: number;
  readonly renderStatus?: number;
  readonly beforeRender?: () => Promise<void>;
  /** Whether the chat template shows no tools. Default: false. */
  readonly dropsTools?: boolean;
  /** The least number of tokens of a prompt. Default: none. */
  readonly tokens?: () => number;
  /** Returns whether the chat template refuses messages with these roles. Default: never. */
  readonly refuses?: (roles: readonly string[]) => boolean;
  readonly port?: number;
  /** The spellings of the control tokens that the engine lists; `untold` omits the page. Default: one. */
  readonly spellings?: readonly string[] | "untold";
  /** The publisher of KV events, or that of each rank. Default: none. */
  readonly publisher?: object | readonly object[];
  /** The folder of the model's configuration, as SGLang reports it. Default: that of a model with parameters. */
  readonly modelPath?: string;
  /** Returns the load page; undefined leaves the request unanswered. */
  readonly load?: () => string | undefined;
};

/** A folder with the configuration that a model comes with, whose parameters are those that the stand-in of vLLM renders. */
const STAND_IN_MODEL = join(import.meta.dirname, "stand-in-model");

/** Starts a stand-in at the process border: an HTTP server with the protocol and quirks of one engine. */
export async function startDialectServer(
  dialect: DialectName,
  options: DialectServerOptions = {},
): Promise<DialectServer> {
  const { paths } = DIALECTS[dialect];
  const bodies: Body[] = [];
  const rendered: Body[] = [];
  const closedSessions: unknown[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const replies: Reply[] = [];
  let aborted = 0;
  let look = () => {};
  const contextWindow = options.contextWindow ?? 32_768;
  const spellings = options.spellings ?? ["<|im_end|>"];
  const publishers = options.publisher ? [options.publisher].flat() : [];
  const pages: Readonly<Record<string, () => object | string | undefined>> = {
    "/v1/models": () => ({ object: "list", data: [{ id: "stand-in", max_model_len: contextWindow }] }),
    "/version": () => ({ version: "0.32.0" }),
    "/kv_event_sources": () =>
      Object.fromEntries(publishers.map((config, rank) => [rank, { enable_kv_cache_events: true, ...config }])),
    "/server_info": () => sglangInfo(publishers, options.modelPath ?? STAND_IN_MODEL),
    "/props": () => ({ build_info: "b1", default_generation_settings: { n_ctx: contextWindow } }),
    ...(paths.specialTokens === undefined || spellings === "untold"
      ? {}
      : { [paths.specialTokens]: () => tokenizerInfo(spellings) }),
    ...(options.load === undefined ? {} : { [paths.load[0] ?? ""]: options.load }),
  };
  const pad = (text: string) => " ".repeat(Math.max(0, (options.tokens?.() ?? 0) - toTokens(text).length)) + text;
  const render = async (response: ServerResponse, body: Body, reply: (text: string) => object) => {
    rendered.push(body);
    await options.beforeRender?.();
    const roles = rolesOf(body);
    // Templates read the first message.
    if (roles.length === 0 || options.refuses?.(roles)) return send(response, 400, REFUSED);
    // SGLang's `_process_messages` gives its template no tools where the choice is none; vLLM and llama-server do.
    const dropsTools = options.dropsTools || (dialect === "sglang" && body.tool_choice === "none");
    const shown = dropsTools ? { ...body, tools: undefined } : body;
    send(response, options.renderStatus ?? 200, reply(pad(renderChat(shown))));
  };
  const calls: Readonly<Record<string, (response: ServerResponse, body: Body) => unknown>> = {
    "/v1/chat/completions/render": (response, body) =>
      render(response, body, (text) => ({
        token_ids: toTokens(text),
        features: null,
        sampling_params: { temperature: 0.6, top_k: 20, max_tokens: 1 },
      })),
    "/apply-template": (response, body) => render(response, body, (prompt) => ({ prompt })),
    "/v1/tokenize": (response, body) =>
      body.messages === undefined
        ? send(response, 200, { tokens: toTokens(String(body.prompt)) })
        : render(response, body, (text) => ({ tokens: toTokens(text) })),
    "/tokenize": (response, body) => send(response, 200, { tokens: toTokens(String(body.prompt ?? body.content)) }),
    "/detokenize": (response, body) => {
      const text = toText(listOf(body.tokens));
      send(response, 200, { prompt: text, content: text });
    },
    "/v1/detokenize": (response, body) => send(response, 200, { text: toText(listOf(body.tokens)) }),
    ...(paths.closeSession && {
      [paths.closeSession]: (response: ServerResponse, body: Body) => {
        closedSessions.push(body.session_id);
        send(response, 200, "");
      },
    }),
    [paths.generate]: (response, body) => {
      bodies.push(body);
      response.on("close", () => {
        if (!response.writableFinished) aborted += 1;
        look();
      });
      const asked = askedBy(body, response.req.headers);
      play(response, dialect, asked, replies.shift() ?? (options.model ?? obedient)(asked));
    },
  };

  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    headers.push(request.headers);
    if (request.url === paths.health) {
      const status = options.health === undefined ? 200 : options.health();
      return status === undefined ? undefined : send(response, status, "");
    }
    const page = request.url === undefined ? undefined : pages[request.url];
    if (page) {
      const said = page();
      return said === undefined ? undefined : send(response, 200, said);
    }
    const call = calls[request.url ?? ""];
    if (call) await call(response, body);
    else send(response, 404, { detail: "Not Found" });
  });
  const port = options.port ?? (await freePort());
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    bodies,
    rendered,
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

/** SGLang's page: the ranks are groups of attention, as of most models that need several GPUs. */
function sglangInfo(publishers: readonly object[], modelPath: string): object {
  const { publisher, endpoint, replay_endpoint: replay } = fieldsOf(publishers[0]);
  const [host, port] = String(endpoint).replace("tcp://", "").split(":");
  return {
    ...{ version: "0.5.23", model_path: modelPath, sampling_defaults: "model", preferred_sampling_params: null },
    ...{ dp_size: 1, attn_dp_size: Math.max(1, publishers.length) },
    kv_events_config: publishers[0] ? JSON.stringify(publishers[0]) : null,
    kv_events: publishers[0]
      ? {
          ...{ publisher, endpoint_host: host, endpoint_port_base: Number(port), block_size: 16 },
          dp_size: publishers.length,
          ...(replay ? { replay_endpoint_port_base: Number(/\d+$/.exec(String(replay))?.[0]) } : {}),
        }
      : null,
  };
}

function tokenizerInfo(spellings: readonly string[]): object {
  const tokens = Object.fromEntries(spellings.map((spelling, index) => [String(2_549 + index), spelling]));
  return { tokenizer_class: "TokenizersBackend", eos_token: spellings[0], added_tokens_decoder: tokens };
}

const REFUSED = { error: { type: "BadRequestError", code: 400, message: "System message must be at the beginning." } };

function rolesOf({ messages }: Body): readonly string[] {
  return Array.isArray(messages) ? messages.map(({ role }) => role) : [];
}

function listOf(value: unknown): readonly number[] {
  return Array.isArray(value) ? value : [];
}

function askedBy(body: Body, headers: IncomingMessage["headers"]): Asked {
  const rank = headers["x-data-parallel-rank"] ?? body.routed_dp_rank;
  const parameters = fieldsOf(body.sampling_params);
  const tokens = listOf(body.token_ids ?? body.input_ids ?? body.prompt);
  const grammar = fieldsOf(parameters.structured_outputs).grammar ?? parameters.ebnf ?? body.grammar ?? "";
  return {
    body,
    tokens,
    prompt: toText(tokens),
    maxTokens: Number(parameters.max_tokens ?? parameters.max_new_tokens ?? body.n_predict),
    grammar: String(grammar),
    rank: rank === undefined ? undefined : Number(rank),
  };
}

function fieldsOf(value: unknown): Body {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** Replies as a model that keeps to a grammar's word or call, and calls the first tool that it is shown later, or first. */
export function obedient({ prompt, grammar }: Asked): Reply {
  const answer = (spoken: SpokenAnswer): Reply => ({ kind: "answer", answer: spoken });
  if (grammar.includes("A12B")) return answer({ text: ['"A1', '2B"'] });
  const later = /"function": \{"name": "(\w+)"/.exec(prompt);
  const [, name] = later ?? /# Tools\n\{"name":"(\w+)"/.exec(prompt) ?? [];
  if (name !== undefined) return answer({ calls: [{ name, arguments: ['{"a": 17', ', "b": 25}'] }] });
  return answer({ text: ["forty", "-two"] });
}

function play(response: ServerResponse, dialect: DialectName, asked: Asked, reply: Reply): void {
  if (reply.kind === "status") {
    send(response, reply.status, reply.body);
    return;
  }
  const events = EVENTS[dialect];
  const stream =
    reply.kind === "stream" ? reply : { data: events.answer(reply.answer, asked.tokens.length), end: "done" as const };
  response.writeHead(200, { "content-type": "text/event-stream" });
  let text = "";
  for (const datum of stream.data) {
    const { said } = fieldsOf(datum);
    const event = typeof said === "string" ? events.piece(said, text) : datum;
    if (typeof said === "string") text += said;
    response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
  }
  if (stream.end === "done") response.end(dialect === "llama-server" ? "" : "data: [DONE]\n\n");
  else if (stream.end === "cut") response.end();
  // After the written data has been sent.
  else if (stream.end === "reset") setImmediate(() => response.destroy());
}

function send(response: ServerResponse, status: number, body: object | string): void {
  response.writeHead(status, { "content-type": typeof body === "string" ? "text/plain" : "application/json" });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<Body> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  return text === "" ? {} : JSON.parse(text);
}
