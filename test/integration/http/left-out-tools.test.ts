import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { type RunningNode, startNode } from "../../support/engine/start-node.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { valueAt } from "../../support/http/value-at.ts";

/* Requests that leave out the tools of the conversation they continue, as Codex does when it has it summarized. */

const MODEL = "svc-qwen";
/** In tokens. */
const WINDOW = 100_000;
const WORDS = "Read the file, and say what is wrong with it. ".repeat(60);
const TOOL = { name: "read", description: "Reads a file. ".repeat(300) };
const SCHEMA = { type: "object", properties: { path: { type: "string" } } };
const FORMATS = {
  "/v1/chat/completions": (messages: readonly object[], hasTools: boolean) => ({
    messages,
    ...(hasTools && { tools: [{ type: "function", function: { ...TOOL, parameters: SCHEMA } }] }),
  }),
  "/v1/messages": (messages: readonly object[], hasTools: boolean) => ({
    ...{ messages, max_tokens: 100, tools: hasTools ? [{ ...TOOL, input_schema: SCHEMA }] : [] },
  }),
  "/v1/responses": (input: readonly object[], hasTools: boolean) => ({
    ...{ input, tools: hasTools ? [{ type: "function", ...TOOL, parameters: SCHEMA }] : [], tool_choice: "auto" },
  }),
};
type Path = keyof typeof FORMATS;
const PATHS = Object.keys(FORMATS) as Path[];

/** The requests that the node got. */
const asked: GenerateRequest[] = [];
let node: RunningNode;
let restoring: RunningGateway;
let omitting: RunningGateway;

beforeAll(async () => {
  const simulator = fastSimulator({ contextTokens: WINDOW });
  const generate = simulator.generate.bind(simulator);
  simulator.generate = (request, ...rest) => {
    asked.push(request);
    return generate(request, ...rest);
  };
  node = await startNode(simulator);
  const settings = { cacheHeader: true, clusters: [{ model: MODEL, endpoints: [{ address: node.address }] }] };
  restoring = await startGateway([node.address], settings);
  omitting = await startGateway([node.address], { ...settings, formats: { leftOutTools: "omit" } });
});

afterAll(async () => {
  await restoring.stop();
  await omitting.stop();
  await node.stop();
});

const user = (content: string) => ({ role: "user", content });
const said = { role: "assistant", content: "Nothing is wrong." };

async function ask(gateway: RunningGateway, path: Path | string, body: object, headers = {}) {
  const response = await gateway.post(path, { ...body, model: MODEL, stream: false }, headers);
  expect(response.status).toBe(200);
  const { usage } = (await response.json()) as { readonly usage: object };
  const cached =
    valueAt(usage, "cache_read_input_tokens") ??
    valueAt(usage, "prompt_tokens_details", "cached_tokens") ??
    valueAt(usage, "input_tokens_details", "cached_tokens");
  const fresh = valueAt(usage, "prompt_tokens") ?? valueAt(usage, "input_tokens");
  const apart = Number(valueAt(usage, "cache_read_input_tokens") ?? 0);
  const written = Number(valueAt(usage, "cache_creation_input_tokens") ?? 0);
  return {
    ...{ cached: Number(cached), tokens: Number(fresh) + apart + written },
    reason: /reason=(\w+)/.exec(response.headers.get("x-svc-cache") ?? "")?.[1],
  };
}

/** A turn with tools, and a request without them that continues it; `opening` is the conversation's first message. */
async function compaction(gateway: RunningGateway, path: Path, opening: string, summarize = "Summarize.") {
  const turn = [user(`${opening} ${WORDS}`), said, user("And now?")];
  const before = await ask(gateway, path, FORMATS[path](turn, true));
  const after = await ask(gateway, path, FORMATS[path]([...turn, said, user(summarize)], false));
  return { before, after };
}

test.each(PATHS)("%s: find the whole prompt of the turn before, and may call nothing", async (path) => {
  const { before, after } = await compaction(restoring, path, path);
  expect(after.cached).toBeGreaterThanOrEqual(0.95 * before.tokens);
  expect(after.reason).toBe("hit");
  const sent = asked.at(-1);
  expect(sent?.tools.map(({ name }) => name)).toEqual([TOOL.name]);
  expect(sent?.toolChoice?.mode).toBe(ToolChoiceMode.NONE);
});

test.each(PATHS)("%s: find nothing where the setting omits the tools, for a reason of its own", async (path) => {
  const { after } = await compaction(omitting, path, `omitted ${path}`);
  expect(after).toMatchObject({ cached: 0, reason: "tools_left_out" });
  expect(asked.at(-1)?.tools).toEqual([]);
});

test("a large one is digested on a thread, and finds the same", async () => {
  const { before, after } = await compaction(restoring, "/v1/responses", "large ".repeat(60_000));
  expect(after.cached).toBeGreaterThanOrEqual(0.95 * before.tokens);
});

test("a prompt that might not fit the window with them stays without, for the same reason", async () => {
  const filling = "fill ".repeat(0.77 * WINDOW);
  const { after } = await compaction(restoring, "/v1/responses", filling);
  expect(after.reason).toBe("tools_left_out");
  expect(asked.at(-1)?.tools).toEqual([]);
});

test.each([
  ["another conversation with the same first message", [user(`first ${WORDS}`), said, user("Other words."), said]],
  [
    "the same one with an earlier message changed",
    [user(`first ${WORDS}`), { ...said, content: "All." }, user("?"), said],
  ],
])("%s keeps its own tools, none", async (_, messages) => {
  await ask(restoring, "/v1/responses", FORMATS["/v1/responses"]([user(`first ${WORDS}`), said, user("?")], true));
  await ask(restoring, "/v1/responses", FORMATS["/v1/responses"]([...messages, user("Summarize.")], false));
  expect(asked.at(-1)?.tools).toEqual([]);
});

test("another key gets no tools of a conversation with the same words", async () => {
  const turn = [user(`owned ${WORDS}`), said, user("?")];
  const body = FORMATS["/v1/responses"]([...turn, said, user("Summarize.")], false);
  await ask(restoring, "/v1/responses", FORMATS["/v1/responses"](turn, true));
  await ask(restoring, "/v1/responses", body, {
    authorization: `Bearer ${await restoring.createKey("--name", "other", "--models", "all")}`,
  });
  expect(asked.at(-1)?.tools).toEqual([]);
});

test("a recorded compaction of Codex finds the turn before", async () => {
  const recorded = (file: string) =>
    JSON.parse(readFileSync(join(import.meta.dirname, `../../agent-requests/${file}.json`), "utf8"));
  const { path, headers, body } = recorded("codex-171-10-compaction-local");
  // Codex sends the same tools with and without servers of its user, and those.
  const { tools } = recorded("codex-171-3-mcp-namespace").body;
  expect(body.tools).toEqual([]);
  const before = await ask(restoring, path, { ...body, tools, input: body.input.slice(0, -1) }, headers);
  const after = await ask(restoring, path, body, headers);
  expect(after.cached).toBeGreaterThanOrEqual(0.9 * before.tokens);
  expect(asked.at(-1)?.tools).toEqual(asked.at(-2)?.tools);
});
