import { describe, expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../../../gateway/catalog.ts";
import { ApiError } from "../../../../gateway/errors.ts";
import { bodyOf, FRAME_KEYS, readFrame, responseFrames } from "../../../../gateway/formats/responses/frames.ts";
import type { Answering } from "../../../../gateway/formats/responses/request.ts";
import type { ResponsesStream } from "../../../../gateway/formats/responses/stream.ts";
import { dataOf } from "../../../../gateway/formats/sse.ts";
import type { Conversation } from "../../../../gateway/http/websocket/kept-conversations.ts";
import { parseBody, scanBody } from "../../../../gateway/json/json-body.ts";
import { Sealing } from "../../../../gateway/sealing/sealing.ts";
import {
  type Caller,
  conversationBehind,
  type Translated,
  translate,
} from "../../../../gateway/translation/translate.ts";
import { HeadChanged, messageFor, wholeBytes } from "../../../../gateway/upstream/request/encoded-request.ts";
import { type Event, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS, HEAD } from "../../../support/events/encoding-context.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../../support/events/events.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";

/*
 * The law of responses over WebSocket: a frame that continues a conversation becomes the same bytes and digests as the
 * conversation by HTTP. Here a client keeps every item that it sent and was given, and says the same thing both ways.
 */

const CALLER: Caller = {
  ...{
    requestId: "req_1",
    tenant: "t",
    cacheSalt: "salt",
    maxOutputTokens: undefined,
    usableModels: [],
    loadTests: false,
    priority: 0,
  },
  routingKey: Buffer.alloc(32, 7),
};
const sealing = new Sealing();
const MODEL = "svc-glm53";

type Order = { readonly before?: Conversation | undefined; readonly mayDigest?: boolean };

function translated(bytes: Buffer, operation: "responses" | "responses_frame", order: Order = {}): Translated {
  const keys = operation === "responses" ? ["model", "input", "stream"] : FRAME_KEYS;
  return translate(
    parseBody(scanBody(bytes, keys)),
    { operation, caller: CALLER, bodyBytes: 1, ...order },
    {
      ...{ sealing, acceptsImages: () => true, promptBounds: () => [] },
      ...{ settings: FORMAT_SETTINGS, catalog: DEFAULT_CATALOG },
    },
  );
}

/** Numbers that a parser changes, as JSON text behind marks. */
const written = (value: unknown, space?: string) =>
  JSON.stringify(value, undefined, space).replaceAll(/"#(.*?)#"/g, "$1");

/** An item of a client, or of the service as its events show it. */
type Item = Readonly<Record<string, unknown>>;

/** A conversation after an answer: what the client has, and what the socket keeps. */
type Node = {
  readonly items: readonly Item[];
  readonly kept: Conversation | undefined;
  readonly open: readonly Item[];
  readonly instructions: string | undefined;
};

const TOOLS = [
  {
    type: "function",
    name: "run",
    parameters: { type: "object", properties: { n: { type: "number", maximum: "#1.0#" } } },
  },
  { type: "custom", name: "patch" },
  { type: "namespace", name: "mcp", description: "More.", tools: [{ type: "function", name: "look", parameters: {} }] },
];
const TEXTS = ["Hi.", 'a "quoted" \\ text', "日本語 😀", "\u2028 lines\n\ttabs", "x".repeat(3_000), " "] as const;

class Client {
  readonly #random: SeededRandom;
  #calls = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  /** New items for a turn: outputs of open calls, then others. */
  turn({ open, instructions: earlier }: Node): { readonly input: readonly Item[] | string; readonly settings: Item } {
    const outputs = open.map(({ type, call_id }) => ({ type: `${type}_output`, call_id, output: this.#text() }));
    const others = Array.from({ length: this.#random.below(3) + Number(open.length === 0) }, () => this.#item());
    const input = open.length === 0 && this.#random.below(5) === 0 ? this.#text() : [...outputs, ...others];
    const instructions = this.#random.below(4) > 0 ? earlier : this.pick([undefined, ...TEXTS]);
    const settings = {
      ...{ model: MODEL, tools: TOOLS, include: ["reasoning.encrypted_content"], prompt_cache_key: "k" },
      ...(instructions !== undefined && { instructions }),
      ...(this.#random.below(2) === 0 && { reasoning: { summary: "auto" } }),
      ...(this.#random.below(3) === 0 && { temperature: 0.5, include: [] }),
    };
    return { input, settings };
  }

  /** The events of an answer. */
  events(): readonly Event[] {
    const blocks: Event[][] = [];
    const add = (start: (index: number) => Event, text: string) => {
      const index = blocks.length;
      blocks.push([start(index), delta(index, text), blockEnd(index)]);
    };
    if (this.#random.below(2) === 0) add(reasoningStart, this.#text());
    if (this.#random.below(2) === 0) add(textStart, this.#text());
    for (let calls = this.#random.below(3); calls > 0; calls -= 1) {
      this.#calls += 1;
      const id = `call_${this.#calls}`;
      if (this.#random.below(3) === 0) add((index) => toolCallStart(index, "patch", id), '{"input":"*** \\"x\\" é"}');
      else add((index) => toolCallStart(index, "run", id), '{"n": 1.0}');
    }
    return [started(), ...blocks.flat(), finished()];
  }

  readonly below = (bound: number) => this.#random.below(bound);

  pick<T>(items: readonly T[]): T {
    return items[this.#random.below(items.length)] as T;
  }

  /** The text of a frame, with its keys in any order and white space anywhere. */
  frame(fields: Item): Buffer {
    const keys = Object.keys(fields).sort(() => this.#random.next() - 0.5);
    const space = this.pick([undefined, " ", "\t"]);
    const text = written(Object.fromEntries(keys.map((key) => [key, fields[key]])), space);
    return Buffer.from(this.#random.below(4) === 0 ? ` \n${text}\r\n` : text);
  }

  #text(): string {
    return this.#random.pick(TEXTS);
  }

  #item(): Item {
    const text = { type: "input_text", text: this.#text() };
    switch (this.#random.below(5)) {
      case 0:
        return { role: "developer", content: [text] };
      case 1:
        return { type: "message", role: "user", content: this.#text() };
      case 2:
        return { type: "message", role: "assistant", content: [{ type: "output_text", text: this.#text() }] };
      case 3:
        return {
          role: "user",
          content: [text, { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=" }],
        };
      default:
        return {
          type: "additional_tools",
          tools: [{ type: "function", name: `more_${this.#random.below(3)}`, parameters: { const: "#1e2#" } }],
        };
    }
  }
}

const asItems = (input: readonly Item[] | string) =>
  typeof input === "string" ? [{ role: "user", content: input }] : input;

/** A call for an endpoint that has some of the messages differs from the whole by these alone. */
function leavesOut(socket: Translated, whole: GenerateRequest, below: (bound: number) => number): void {
  const digest = Buffer.alloc(16, 1);
  const messages = below(whole.messages.length + 1);
  const bytes = messageFor(socket, { resumption: "resumable", base: { digest, messages } });
  const part = GenerateRequest.decode(bytes);
  expect(part).toEqual({ ...whole, messages: whole.messages.slice(messages), baseDigest: part.baseDigest });
  expect(Buffer.compare(part.baseDigest, digest)).toBe(0);
}

test("a continued frame has the bytes and digests of its conversation by HTTP, over chains and forks", () => {
  let continued = 0;
  let digestedAnew = 0;
  for (let seed = 0; seed < sizeOf({ quick: 40, exhaustive: 500 }); seed += 1) {
    const client = new Client(seed);
    const nodes: Node[] = [{ items: [], kept: undefined, open: [], instructions: "Be terse." }];
    for (let turn = 0; turn < 8; turn += 1) {
      // Most turns continue the last answer; a fork continues an earlier one.
      const before = turn % 3 === 2 ? client.pick(nodes) : (nodes.at(-1) as Node);
      const { input, settings } = client.turn(before);
      const isFirst = before === nodes[0];
      const { kept } = before;
      const previous = isFirst
        ? {}
        : { previous_response_id: "resp_1", stream_id: "lane", client_metadata: { a: "b" } };
      const frame = readFrame(client.frame({ type: "response.create", ...settings, ...previous, input }));
      const body = bodyOf(frame, kept?.items, kept?.output);
      const bySocket = (mayDigest: boolean) => translated(body, "responses_frame", { before: kept, mayDigest });
      let socket: Translated;
      try {
        socket = bySocket(false);
      } catch (error) {
        expect(error).toBeInstanceOf(HeadChanged);
        digestedAnew += 1;
        socket = bySocket(true);
      }
      const items = [...before.items, ...asItems(input)];
      const http = translated(Buffer.from(written({ ...settings, stream: true, input: items })), "responses");
      expect(Buffer.compare(wholeBytes(socket), http.bytes)).toBe(0);
      expect(socket.facts).toEqual(http.facts);
      expect(conversationBehind(http)).toBeUndefined();
      leavesOut(socket, GenerateRequest.decode(http.bytes), client.below);
      expect([socket.unopened, http.unopened]).toEqual([0, 0]);
      continued += Number(!isFirst);
      const head = { ...HEAD, sealer: sealing.for({ tenant: "t", model: MODEL, format: "responses" }) };
      const encoder = responseFrames.encoder(head, socket.options as Answering) as ResponsesStream;
      const events = client.events().flatMap((event) => dataOf(encoder.next(event)).map((text) => JSON.parse(text)));
      const done = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item as Item);
      // What the socket keeps is what the client was given.
      const output = encoder.output.map((item) => JSON.stringify(item));
      expect(output).toEqual(done.map((item) => JSON.stringify(item)));
      const conversation = conversationBehind(socket);
      // As between threads.
      const cloned = conversation && structuredClone(conversation);
      nodes.push({
        items: [...items, ...done],
        kept: cloned && { ...cloned, output },
        open: done.filter(({ type }) => String(type).endsWith("_call")),
        instructions: settings.instructions as string | undefined,
      });
    }
  }
  expect(continued).toBeGreaterThan(200);
  // New instructions change the digests of all that follows, and so do the first tools of an item.
  expect(digestedAnew).toBeLessThan(continued / 2);
});

test("no frame continues one that asks for a summary", () => {
  const behind = (...more: readonly Item[]) => {
    const input = [{ role: "user", content: "Hi." }, ...more];
    const frame = readFrame(Buffer.from(JSON.stringify({ type: "response.create", model: MODEL, input })));
    return conversationBehind(translated(bodyOf(frame, undefined, undefined), "responses_frame"));
  };
  expect(behind()).toBeDefined();
  expect(behind({ type: "compaction_trigger" })).toBeUndefined();
});

describe("a frame", () => {
  const reads = (text: string) => readFrame(Buffer.from(text));

  test.each([
    ['{"type":"response.create","type":"response.create"}', "bad_request", ["type"]],
    ['{"type":1}', "invalid_type", ["type"]],
    ['{"type":"x","generate":1}', "invalid_type", ["generate"]],
    ['{"type":"x","previous_response_id":{}}', "invalid_type", ["previous_response_id"]],
    ['{"type":"x","kept_items":[]}', "unknown_parameter", ["kept_items"]],
    ['{"type":"x","kept\\u005fitems":[]}', "unknown_parameter", ["kept_items"]],
    ['{"type":"x","stream_id":}', "invalid_json", undefined],
    ["{", "invalid_json", undefined],
    ["{}", "missing_required_parameter", ["type"]],
  ])("the frame %s of a socket is refused", (text, code, path) => {
    let thrown: unknown;
    try {
      reads(text);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(ApiError);
    expect(thrown).toMatchObject({ code, ...(path && { path }) });
  });

  test.each([
    'x{"type":"response.create"}',
    '[{"type":"response.create"}]',
    '{"type":"response.create"}}',
    '{"type":"response.create",',
  ])("%s is no JSON behind kept items either", (text) => {
    expect(() => translated(bodyOf(reads(text), undefined, ['{"role":"user"}']), "responses_frame")).toThrow(ApiError);
  });

  test("a frame names a place in its own input, or the response that it continues", () => {
    const first = Buffer.from(
      JSON.stringify({ type: "response.create", model: MODEL, input: [{ role: "user", content: "hi" }] }),
    );
    const output = ['{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}'];
    const said = conversationBehind(translated(bodyOf(readFrame(first)), "responses_frame"));
    const before = said && { ...said, output };
    const error = (input: readonly Item[]) => {
      const frame = readFrame(Buffer.from(JSON.stringify({ type: "response.create", model: MODEL, input })));
      try {
        translated(bodyOf(frame, before?.items, output), "responses_frame", { before });
      } catch (thrown) {
        return thrown;
      }
      return undefined;
    };
    expect(error([{ type: "function_call_output", call_id: "d", output: "x" }])).toMatchObject({
      path: ["input", 0, "call_id"],
      wording: "No tool call found for function call output with call_id 'input[0].call_id'.",
    });
    expect(error([{ role: "user", content: "no output" }])).toMatchObject({ path: ["previous_response_id"] });
  });
});
