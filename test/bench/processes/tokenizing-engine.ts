import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { JinjaTemplate } from "../../../engine/conversation/jinja/template.ts";
import { toValue, type Value } from "../../../engine/conversation/jinja/values.ts";
import { EVENTS } from "../../support/dialects/dialect-events.ts";
import { obedient } from "../../support/dialects/dialect-server.ts";
import { nowUs, PACED, stamp } from "./requests.ts";

/*
 * The engine beside the node in the bench of turns: vLLM's protocol with a tokenizer of words, a model that answers at
 * once, and paced streams for neighbours. Its argument is a file with a chat template and the control tokens. It reads
 * no long list of tokens, so that it does not hold up its own streams; `/counts` says what its tokenizer got.
 */

export type EngineFiles = { readonly template: string; readonly control: readonly string[] };

/** What the tokenizer got since the last look: calls, their characters, the longest one, and its time. */
export type Tokenized = {
  readonly calls: number;
  readonly characters: number;
  readonly longest: number;
  readonly ms: number;
};

const PACE_MS = 10;
/** Bodies of more bytes are not read. */
const LONG_BODY = 60_000;
const WINDOW = 8_000_000;
const FIRST_WORD = 100_000;
const MODEL = "turns";
const NONE: Tokenized = { calls: 0, characters: 0, longest: 0, ms: 0 };

const { template, control } = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as EngineFiles;
const jinja = new JinjaTemplate(template);
const marks = control.map((mark) => mark.replaceAll("|", "\\|")).join("|");
const PIECES = new RegExp(`${marks}|\\s?[^\\s]{1,4}|\\s`, "gu");
const ids = new Map(control.map((mark, id) => [mark, id]));
const words = new Map(control.map((mark, id) => [id, mark]));
let counted = NONE;

function toTokens(text: string): readonly number[] {
  // A mark inside a word of four units is cut out of it first.
  return text
    .split(new RegExp(`(${marks})`))
    .flatMap((part) => part.match(PIECES) ?? [])
    .map((piece) => {
      const known = ids.get(piece);
      if (known !== undefined) return known;
      const id = FIRST_WORD + ids.size;
      ids.set(piece, id);
      words.set(id, piece);
      return id;
    });
}

const toText = (tokens: readonly number[]) => tokens.map((id) => words.get(id) ?? "").join("");

type Body = Readonly<Record<string, unknown>>;

function rendered({
  messages,
  tools = null,
  chat_template_kwargs: more,
  continue_final_message: goesOn,
}: Body): string {
  const said = (Array.isArray(messages) ? messages : []).map((message) => ({
    ...message,
    content: message.content ?? "",
  }));
  for (const { tool_calls: calls = [] } of said)
    for (const call of calls) call.function.arguments = JSON.parse(call.function.arguments);
  const variables: Record<string, Value> = {};
  const given = { messages: said, tools, add_generation_prompt: goesOn !== true, bos_token: "", ...Object(more) };
  for (const [name, value] of Object.entries(given)) variables[name] = toValue(value);
  return jinja.render(variables, { quote: JSON.stringify });
}

function tokenized(text: string): readonly number[] {
  const from = performance.now();
  const tokens = toTokens(text);
  const { calls, characters, longest, ms } = counted;
  counted = {
    calls: calls + 1,
    characters: characters + text.length,
    longest: Math.max(longest, text.length),
    ms: ms + performance.now() - from,
  };
  return tokens;
}

const CALLS: Readonly<Record<string, (body: Body) => object>> = {
  "/v1/chat/completions/render": (body) => ({
    token_ids: toTokens(rendered(body)),
    features: null,
    sampling_params: {},
  }),
  "/tokenize": ({ prompt }) => ({ tokens: tokenized(String(prompt)) }),
  "/detokenize": ({ tokens }) => ({ prompt: toText(tokens as readonly number[]) }),
};

const PAGES: Readonly<Record<string, () => object>> = {
  "/health": () => ({}),
  "/v1/models": () => ({ object: "list", data: [{ id: MODEL, max_model_len: WINDOW }] }),
  "/version": () => ({ version: "0.32.0" }),
  "/tokenizer_info": () => ({ added_tokens_decoder: Object.fromEntries(control.map((mark, id) => [id, mark])) }),
  "/counts": () => {
    const now = counted;
    counted = NONE;
    return now;
  },
};

async function generate(response: ServerResponse, body: Buffer): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (event: object) => response.write(`data: ${JSON.stringify(event)}\n\n`);
  const { piece, answer } = EVENTS.vllm;
  const { token_ids: tokens = [], sampling_params: sampling } = body.length > LONG_BODY ? {} : JSON.parse(String(body));
  const prompt = toText(tokens);
  while (prompt.includes(PACED) && !response.destroyed) {
    send(piece(stamp(nowUs()), ""));
    await sleep(PACE_MS);
  }
  const grammar = String(sampling?.structured_outputs?.grammar ?? "");
  const reply = obedient({ body: {}, tokens, prompt, grammar, maxTokens: 8 });
  if (reply.kind === "answer") for (const event of answer(reply.answer, tokens.length)) send(event);
  response.end("data: [DONE]\n\n");
}

const server = createServer(async (request, response) => {
  const { url = "" } = request;
  const body = await buffer(request);
  if (url === "/inference/v1/generate") return generate(response, body);
  const reply = PAGES[url]?.() ?? CALLS[url]?.(JSON.parse(String(body)));
  response.writeHead(reply ? 200 : 404, { "content-type": "application/json" });
  response.end(JSON.stringify(reply ?? {}));
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`ready ${JSON.stringify({ baseUrl: `http://127.0.0.1:${port}` })}\n`);
});
process.on("SIGTERM", () => process.exit());
process.on("disconnect", () => process.exit());
