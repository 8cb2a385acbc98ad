import { generateText, jsonSchema, stepCountIs, streamText, type ToolSet } from "ai";
import { describe, expect, test } from "vitest";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { modelWrites } from "../../support/engine/model-writes.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { textAnswer } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { AI_MODELS, ANTHROPIC, anthropicOf, OPENAI, openaiOf, optionsOf } from "./clients.ts";

/* A model without a grammar breaks its calls: no client runs its tool with arguments that the model did not write. */

const service = serviceOfFile();

/** Every property may be missing and no client has a validator: an empty object, or half of one, would do. */
const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string" as const }, days: { type: "number" as const } },
};
const NAME = "look";

const begun = (args: string) => `<tool_call>\n{"name": "${NAME}", "arguments": ${args}`;
const call = (args: string) => `${begun(args)}}\n</tool_call>\n`;

/** What the model writes, and the arguments of the calls in it that are whole. */
const BROKEN: readonly (readonly [what: string, output: string, whole: readonly object[]])[] = [
  ["a word without quotation marks", call('{"city": "Paris", "days": 2 days"}'), []],
  ["a quotation mark in a string", call('{"city": "echo "hi" > x"}'), []],
  ["no JSON behind the brace", call("{Paris}"), []],
  ["the end in a string", begun('{"city": "rm -rf /tmp/x'), []],
  ["the end behind a member", begun('{"city": "Paris"'), []],
  ["a whole call before it", call('{"city": "Bled"}') + call('{"city": "Paris", "days": 2 days"}'), [{ city: "Bled" }]],
  ["a whole call behind it", call('{"city": Paris}') + call('{"city": "Bled"}'), [{ city: "Bled" }]],
];

const REPAIRED = '{"city": "Paris", "days": 2}';

/** The model breaks its first turn, repairs its call in the second, and ends. */
function turns(output: string): Script {
  return (request, signal) => {
    const answered = request.messages.filter(({ role }) => role === Role.ASSISTANT).length;
    const next = answered === 0 ? modelWrites(...(output.match(/[\s\S]{1,5}/g) ?? [])) : modelWrites(call(REPAIRED));
    return answered < 2 ? next(request, signal) : [textAnswer("Done.")];
  };
}

type Execute = (input: unknown) => string;

/**
 * How a client takes a broken call: it answers that the arguments are invalid, it reads it as text, or it throws, and
 * then runs no other call of the answer either.
 */
type Takes = "answers" | "text" | "throws";

/** Plays a conversation to its end, and throws as the client does. */
type Client = readonly [name: string, takes: Takes, run: (execute: Execute) => Promise<unknown>];

const AI: readonly Client[] = Object.entries(AI_MODELS).flatMap(([provider, modelOf]): Client[] => {
  const request = (execute: Execute) => {
    const tools: ToolSet = { [NAME]: { inputSchema: jsonSchema(SCHEMA), execute } };
    const model = modelOf(optionsOf(service));
    const providerOptions = { openai: { store: false } };
    return {
      model,
      prompt: "hi",
      maxRetries: 0,
      maxOutputTokens: 640,
      tools,
      stopWhen: stepCountIs(4),
      providerOptions,
    };
  };
  return [
    [`ai, ${provider}, reply`, provider === "anthropic" ? "text" : "answers", (run) => generateText(request(run))],
    [`ai, ${provider}, stream`, "answers", async (run) => streamText(request(run)).consumeStream()],
  ];
});

const RUN_TOOLS: readonly Client[] = OPENAI.flatMap(([name, Sdk]): Client[] => {
  const params = (run: Execute) => ({
    model: "svc-qwen",
    messages: [{ role: "user" as const, content: "hi" }],
    tools: [
      {
        type: "function" as const,
        function: { name: NAME, description: "", parameters: SCHEMA, parse: JSON.parse, function: run },
      },
    ],
  });
  const chat = () => openaiOf(service, Sdk).chat.completions;
  return [
    [`${name}, runTools, reply`, "answers", (run) => chat().runTools(params(run)).finalContent()],
    [
      `${name}, runTools, stream`,
      "answers",
      (run) =>
        chat()
          .runTools({ ...params(run), stream: true })
          .finalContent(),
    ],
  ];
});

const TOOL_RUNNER: readonly Client[] = ANTHROPIC.flatMap(([name, Sdk]): Client[] => {
  const params = (run: Execute) => ({
    model: "svc-qwen",
    max_tokens: 640,
    messages: [{ role: "user" as const, content: "hi" }],
    tools: [{ name: NAME, input_schema: SCHEMA, run, parse: (input: unknown) => input }],
  });
  const beta = () => anthropicOf(service, Sdk).beta.messages;
  return [
    [`${name}, toolRunner, reply`, "text", (run) => beta().toolRunner(params(run)).runUntilDone()],
    [
      `${name}, toolRunner, stream`,
      "throws",
      (run) =>
        beta()
          .toolRunner({ ...params(run), stream: true })
          .runUntilDone(),
    ],
  ];
});

/** The oldest runner reads `{}` of a call that a limit cuts, in streams, whatever the server. */
const RUNS_CUT_CALLS = "anthropic 0.65, toolRunner, stream";

describe.each([...AI, ...RUN_TOOLS, ...TOOL_RUNNER])("%s: %s", (name, takes, run) => {
  test.each(BROKEN)("%s", async (_what, output, whole) => {
    service.play(turns(output));
    const ran: unknown[] = [];
    const end = run((input) => {
      ran.push(input);
      return "fine";
    });
    if (takes === "throws") await expect(end).rejects.toThrow("Unable to parse tool parameter JSON");
    else await end;
    const goesOn = takes === "answers" || (takes === "text" && whole.length > 0);
    expect(ran).toEqual(goesOn ? [...whole, JSON.parse(REPAIRED)] : []);
  });

  test("a call that a limit cuts", async () => {
    const cut = modelWrites(...(begun('{"city": "rm -rf /tmp/x and more').match(/[\s\S]{1,5}/g) ?? []));
    service.play((request, signal) => {
      const isFirst = request.messages.every(({ role }) => role === Role.USER);
      return isFirst ? cut({ ...request, maxOutputTokens: 14 }, signal) : [textAnswer("Done.")];
    });
    const ran: unknown[] = [];
    const end = run((input) => {
      ran.push(input);
      return "fine";
    });
    // A runner may refuse the whole answer.
    await end.catch((error: unknown) => expect(String(error)).toContain("length limit"));
    expect(ran).toEqual(name === RUNS_CUT_CALLS ? [{}] : []);
  });
});
