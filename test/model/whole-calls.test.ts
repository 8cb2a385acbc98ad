import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CATALOG } from "../../gateway/catalog.ts";
import { missing, startBackend } from "../support/engine/demo-engine.ts";
import { noPretrained, PRETRAINED_MODEL } from "../support/engine/pretrained.ts";
import { startNode } from "../support/engine/start-node.ts";
import { type RunningGateway, startGateway } from "../support/gateway/start-gateway.ts";

/*
 * Calls of tools that are not strict, in all formats: behind the opening mark every one is whole. The pretrained weights
 * were not trained to call tools, so that their calls are demanded too.
 */

const integer = { type: "integer" };
const text = { type: "string" };
const TOOLS = [
  { name: "get_weather", description: "Get the weather of a city", keys: { city: text, days: integer } },
  { name: "search_files", description: "Search the files of the project", keys: { pattern: text, limit: integer } },
  { name: "add_reminder", description: "Add a reminder", keys: { text, minutes: integer } },
  { name: "convert_currency", description: "Convert an amount", keys: { amount: { type: "number" }, currency: text } },
].map(({ name, description, keys }) => ({ name, description, schema: { type: "object", properties: keys } }));
const PROMPTS = [
  ...["What is the weather in Paris for 2 days?", "Weather in Oslo?", "Will it rain in Rome in the next 3 days?"],
  ...[
    "Is it cold in Berlin?",
    "Search for TODO in the files.",
    "Find files with main, at most 5.",
    "Search for config.",
  ],
  ...["Where is parseArgs used? Show 10.", "Remind me to call Ann in 20 minutes.", "Add a reminder: buy milk."],
  ...["Remind me of the meeting in 5 minutes.", "Convert 100 to EUR.", "How much is 12.5 dollars in yen?"],
  ...["Convert 7 pounds to USD.", "What is the weather in São Paulo for 1 day?"],
];

type Call = { readonly name: string; readonly json: string };
type Wish = { readonly prompt: string; readonly temperature: number; readonly demanded: boolean };

/** The calls of a prompt in one format: as JSON, and in a stream. */
type Format = (gateway: RunningGateway, wish: Wish, stream: boolean) => Promise<readonly Call[]>;

async function textOf(reply: Response): Promise<string> {
  const said = await reply.text();
  expect(reply.status, said).toBe(200);
  return said;
}

const eventsOf = async (reply: Response) =>
  [...(await textOf(reply)).matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data ?? ""));

const jsonOf = async (reply: Response) => JSON.parse(await textOf(reply));

const FORMATS: Readonly<Record<string, Format>> = {
  async chat(gateway, { prompt, temperature, demanded }, stream) {
    const reply = await gateway.post("/v1/chat/completions", {
      ...{ model: "svc-qwen", temperature, stream, max_tokens: 120, messages: [{ role: "user", content: prompt }] },
      tools: TOOLS.map(({ schema, ...tool }) => ({ type: "function", function: { ...tool, parameters: schema } })),
      tool_choice: demanded ? "required" : "auto",
    });
    const parts = stream
      ? (await eventsOf(reply)).flatMap(({ choices }) => choices)
      : (await jsonOf(reply)).choices.map(({ message, ...choice }: { message: object }) => ({
          ...choice,
          delta: message,
        }));
    if (parts.some(({ finish_reason }: { finish_reason: string }) => finish_reason === "length")) return [];
    const calls: { name: string; json: string }[] = [];
    for (const { delta } of parts)
      for (const { index = calls.length, function: part } of delta?.tool_calls ?? []) {
        calls[index] ??= { name: part.name, json: "" };
        calls[index].json += part.arguments;
      }
    return calls;
  },
  async messages(gateway, { prompt, temperature, demanded }, stream) {
    const reply = await gateway.post("/v1/messages", {
      ...{ model: "svc-qwen", temperature, stream, max_tokens: 120, messages: [{ role: "user", content: prompt }] },
      tools: TOOLS.map(({ schema, ...tool }) => ({ ...tool, input_schema: schema })),
      tool_choice: { type: demanded ? "any" : "auto" },
    });
    if (!stream) {
      const { content, stop_reason } = await jsonOf(reply);
      if (stop_reason === "max_tokens") return [];
      return content.flatMap(({ type, name, input }: { type: string; name: string; input: unknown }) =>
        type === "tool_use" ? [{ name, json: JSON.stringify(input) }] : [],
      );
    }
    const events = await eventsOf(reply);
    if (events.some(({ delta }) => delta?.stop_reason === "max_tokens")) return [];
    return events.flatMap(({ type, index, content_block: block }) => {
      if (type !== "content_block_start" || block.type !== "tool_use") return [];
      const deltas = events.filter((event) => event.index === index).map(({ delta }) => delta?.partial_json ?? "");
      return [{ name: block.name, json: deltas.join("") }];
    });
  },
  async responses(gateway, { prompt, temperature, demanded }, stream) {
    const reply = await gateway.post("/v1/responses", {
      ...{ model: "svc-qwen", temperature, stream, max_output_tokens: 120, input: prompt },
      tools: TOOLS.map(({ schema, ...tool }) => ({ type: "function", ...tool, parameters: schema, strict: false })),
      tool_choice: demanded ? "required" : "auto",
    });
    const { status, output } = stream ? (await eventsOf(reply)).at(-1).response : await jsonOf(reply);
    if (status === "incomplete") return [];
    return output.flatMap(({ type, name, arguments: json }: { type: string; name: string; arguments: string }) =>
      type === "function_call" ? [{ name, json }] : [],
    );
  },
};

const SLOTS = 4;
const PATIENCE_MS = 240_000;

const WEIGHTS = [
  {
    weights: "demonstration",
    skip: missing,
    options: {},
    prompts: PROMPTS,
    ...{ temperatures: [0, 0.7], demanded: false, streams: [false, true] },
  },
  {
    weights: "pretrained",
    skip: noPretrained,
    options: { modelPath: PRETRAINED_MODEL },
    ...{ prompts: PROMPTS.slice(0, SLOTS), temperatures: [0.7], demanded: true, streams: [true] },
  },
];

describe.each(WEIGHTS)("calls by $weights weights", ({ skip, options, prompts, temperatures, demanded, streams }) => {
  let gateway: RunningGateway;
  const ends: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    if (skip !== "") return;
    const models = CATALOG.map(({ id }) => id);
    const backend = await startBackend({ ...options, models, contextTokens: 2048, slots: SLOTS });
    const node = await startNode(backend, { models });
    gateway = await startGateway([node.address]);
    ends.push(gateway.stop, node.stop, () => backend.close());
  });
  afterAll(async () => {
    for (const end of ends) await end();
  });

  const variants = Object.entries(FORMATS).flatMap(([format, callsOf]) =>
    streams.map((stream) => ({ format, callsOf, stream })),
  );
  test.skipIf(skip !== "").each(variants)(
    "are whole in $format, streamed: $stream",
    async ({ callsOf, stream }) => {
      let calls = 0;
      const wishes = temperatures.flatMap((temperature) =>
        prompts.map((prompt) => ({ prompt, temperature, demanded })),
      );
      for (let at = 0; at < wishes.length; at += SLOTS) {
        const asked = wishes.slice(at, at + SLOTS).map((wish) => callsOf(gateway, wish, stream));
        for (const { name, json } of (await Promise.all(asked)).flat()) {
          calls += 1;
          expect(TOOLS.map((tool) => tool.name)).toContain(name);
          expect(JSON.parse(json), json).toBeTypeOf("object");
        }
      }
      // The weights decide how many; that depends on the order in which processors add.
      expect(calls).toBeGreaterThan(0);
    },
    PATIENCE_MS,
  );
});
