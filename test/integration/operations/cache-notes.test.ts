import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { type RunningNode, startNode } from "../../support/engine/start-node.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { until } from "../../support/until.ts";

const CHAT = "/v1/chat/completions";
const MODEL = "svc-qwen";

let node: RunningNode;
let gateway: RunningGateway;
let admin: RunningAdmin;

beforeAll(async () => {
  node = await startNode(fastSimulator());
  const clusters = [{ model: MODEL, endpoints: [{ address: node.address }] }];
  gateway = await startGateway([node.address], { clusters, cacheHeader: true });
  admin = await startAdmin(gateway);
});

afterAll(async () => {
  await admin.stop();
  await gateway.stop();
  await node.stop();
});

type Said = { readonly role: string; readonly content: string };

async function ask(messages: readonly Said[], stream = false) {
  const response = await gateway.post(CHAT, { model: MODEL, messages, stream });
  const text = await response.text();
  const id = response.headers.get("x-request-id");
  const found = () => gateway.log.find((line) => line.includes(`"request_id":"${id}"`));
  await until(() => found() !== undefined, "the request is logged");
  const answer = stream ? "" : String(JSON.parse(text).choices[0].message.content);
  return { answer, header: response.headers.get("x-svc-cache"), line: JSON.parse(found() ?? "") };
}

test("log line, metric and header have the expected and cached tokens, and the reason for misses", async () => {
  const first: Said[] = [
    { role: "system", content: "You are terse. ".repeat(200) },
    { role: "user", content: "What is to be done? ".repeat(100) },
  ];
  const begun = await ask(first);
  expect(begun.line).toMatchObject({ cache_reason: "new", cache_expected_tokens: 0 });
  expect(begun.header).toBe("expected=0, cached=0, lost=0, reason=new");

  const second = [...first, { role: "assistant", content: begun.answer }, { role: "user", content: "And then?" }];
  const followed = await ask(second, true);
  const { cached_tokens: cached, cache_expected_tokens: expected } = followed.line;
  expect(cached).toBeGreaterThan(1_000);
  expect(expected).toBe(cached);
  expect(followed.header).toBe(`expected=${expected}, cached=${cached}, lost=0, reason=hit`);

  const edited = await ask([
    ...first,
    { role: "assistant", content: "No. ".repeat(600) },
    { role: "user", content: "Why?" },
  ]);
  expect(edited.line.cache_reason).toBe("hit");
  const again = await ask([...first, { role: "assistant", content: "Yes." }, { role: "user", content: "Why?" }]);
  expect(again.line).toMatchObject({ cache_reason: "client_changed", cache_changed_message: 2 });
  expect(again.header).toContain("reason=client_changed, message=2");

  const page = await gateway.stats.registry.metrics();
  expect(page).toMatch(/svc_cache_requests_total\{model="svc-qwen",reason="client_changed"\} 1/);
  expect(page).toMatch(/svc_cache_lost_tokens_total\{model="svc-qwen",reason="client_changed"\} [1-9]/);
});

test("the admin port has the reasons of each model, with their requests and lost tokens", async () => {
  const { models } = (await admin.json("/fleet")) as { readonly models: readonly Record<string, unknown>[] };
  expect(models.find(({ model }) => model === MODEL)?.cacheReasons).toEqual([
    { reason: "client_changed", requests: 1, lostTokens: expect.any(Number) },
    { reason: "hit", requests: 2, lostTokens: 0 },
    { reason: "new", requests: 1, lostTokens: 0 },
  ]);
});

type Named = { readonly name: string };
type Item = { readonly type?: string; readonly role?: string };
const recorded = (file: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, `../../agent-requests/${file}.json`), "utf8"));

/** Two searches of Claude Code, of which the second is made after the recorded one. */
function claudeTurns() {
  const { path, headers, body } = recorded("claude-332-3-tool-search-loaded");
  const tool = (name: string) => ({ name, input_schema: { type: "object" }, defer_loading: true });
  const loaded = ["WebFetch", "NotebookEdit"];
  const search = (id: string, name: string) => [
    { role: "assistant", content: [{ type: "tool_use", id, name: "ToolSearch", input: { query: name } }] },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: id, content: [{ type: "tool_reference", tool_name: name }] }],
    },
  ];
  const turns = [
    { messages: body.messages.slice(0, -2), tools: body.tools.filter(({ name }: Named) => !loaded.includes(name)) },
    { messages: body.messages, tools: body.tools },
    { messages: [...body.messages, ...search("toolu_2", "Print")], tools: [tool("Print"), ...body.tools] },
  ];
  return { path, headers, bodies: turns.map((turn) => ({ ...body, ...turn })) };
}

/** A conversation of Codex turn by turn, with a search in its fourth, and another search behind it. */
function codexSearches() {
  const { path, headers, body } = recorded("codex-171-11-tool-search-loaded");
  const { input }: { readonly input: readonly Item[] } = body;
  const ends = input.flatMap(({ role }, at) => (role === "assistant" ? [at] : []));
  const later = [{ type: "function", name: "print_page", defer_loading: true }];
  const search = input
    .filter(({ type }) => type?.startsWith("tool_search"))
    .map((item) => ({ ...item, call_id: "call_again", ...(item.type === "tool_search_output" && { tools: later }) }));
  const inputs = [...ends.map((end) => input.slice(0, end)), input, [...input, ...search]];
  return { path, headers, bodies: inputs.map((turns) => ({ ...body, input: turns })) };
}

/** Codex under the name of a model for which its tools are an item, and two further such items. */
function codexAdditions() {
  const { path, headers, body } = recorded("codex-171-9-gpt-5.6-additional-tools");
  const more = (name: string) => [
    { role: "assistant", content: "Ready." },
    { type: "additional_tools", role: "developer", tools: [{ type: "function", name }] },
  ];
  const second = [...body.input, ...more("fetch_page")];
  const third = [...second, { role: "user", content: "Go on." }, ...more("print_page")];
  return { path, headers, bodies: [body.input, second, third].map((input) => ({ ...body, input })) };
}

test.each([
  ["searches of Claude Code", claudeTurns()],
  ["searches of Codex", codexSearches()],
  ["additional tools of Codex", codexAdditions()],
])("%s lose nothing of the cached prompt", async (_, { path, headers, bodies }) => {
  let before = 0;
  for (const [at, body] of bodies.entries()) {
    const response = await gateway.post(path, { ...body, model: MODEL, stream: false }, headers);
    const { usage } = (await response.json()) as { readonly usage: Readonly<Record<string, unknown>> };
    const ofMessages = Number(usage.cache_read_input_tokens ?? 0) + Number(usage.cache_creation_input_tokens ?? 0);
    const cached = Number(usage.cache_read_input_tokens ?? valueAt(usage, "input_tokens_details", "cached_tokens"));
    expect(cached).toBeGreaterThanOrEqual(0.95 * before);
    const reason = at === 0 ? "new" : "hit";
    expect(response.headers.get("x-svc-cache")).toMatch(new RegExp(`lost=0, reason=${reason}$`));
    before = Number(usage.input_tokens) + ofMessages;
  }
});

const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";
const tool = { name: "read", description: "Reads. ".repeat(200) };

/** Bodies of three turns: a first one, one that continues it, and one with other tools. */
const TURNS: Record<typeof MESSAGES | typeof RESPONSES, (input: readonly object[], more?: object) => object> = {
  [MESSAGES]: (messages, more = {}) => ({
    ...{ model: MODEL, max_tokens: 100, messages, tools: [{ ...tool, input_schema: {}, ...more }] },
    ...{ metadata: { user_id: "b" }, diagnostics: { previous_message_id: "msg_1" } },
  }),
  [RESPONSES]: (input, more = {}) => ({
    ...{ model: MODEL, input, tools: [{ type: "function", ...tool, ...more }] },
    ...{ prompt_cache_key: "r", prompt_cache_options: { comparison_response_id: "resp_1" } },
  }),
};

test.each([
  [
    MESSAGES,
    /"diagnostics":(null|\{"cache_miss_reason":\{[^}]*\}\})/,
    [
      '{"cache_miss_reason":{"type":"previous_message_not_found"}}',
      "null",
      expect.stringMatching(/"type":"tools_changed","cache_missed_input_tokens":[1-9]/),
    ],
  ],
  [
    RESPONSES,
    /"prompt_cache_diagnostics":(\{[^}]*\})/,
    [
      '{"type":"comparison_response_not_found"}',
      '{"type":"cache_hit"}',
      expect.stringMatching(/"reason":"tools_changed","cache_missed_tokens":[1-9]/),
    ],
  ],
] as const)("%s has the reason in the format's own words for callers that ask", async (path, pattern, expected) => {
  const first = [{ role: "user", content: `${path}: what is to be done? `.repeat(100) }];
  const second = [...first, { role: "assistant", content: "Nothing." }, { role: "user", content: "And then?" }];
  const third = [...second, { role: "assistant", content: "Nothing." }, { role: "user", content: "Why?" }];
  const bodies = [TURNS[path](first), TURNS[path](second), TURNS[path](third, { name: "write" })];
  const found: (string | undefined)[] = [];
  for (const [index, body] of bodies.entries()) {
    const response = await gateway.post(path, { ...body, stream: index === 1 });
    found.push(pattern.exec(await response.text())?.[1]);
  }
  expect(found).toEqual(expected);
});
