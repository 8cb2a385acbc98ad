/* Requests for every kind of answer, in all formats, at temperature 0. */

import { sizeOf } from "../size.ts";

type Path = "/v1/chat/completions" | "/v1/messages" | "/v1/responses";

type Wanted = {
  readonly question: (variant: number) => string;
  readonly thinks?: boolean;
  readonly tools?: "chosen" | "required";
  readonly schema?: object;
};

const CITY = { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] };
const strictly = (properties: object) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});
/** Lines in which most characters are escapes in JSON, or have several bytes. */
const LINES = strictly({
  lines: { type: "array", items: { enum: ['"\\\n\té🚀\u0001"\\'.repeat(4)] }, minItems: 4, maxItems: 4 },
});
/** So many members that generating them takes a while; with a free choice, a model's output varies. */
const MEMBERS = strictly(
  Object.fromEntries(
    Array.from({ length: 12 }, (_, index) => [`member_${index}`, { const: [index, "é", true, null] }]),
  ),
);

const pick = (list: readonly string[], variant: number) => list[variant % list.length];
const CITIES = ["Ljubljana", "Tirana", "Lisbon", "Rome", "Oslo", "Paris", "Madrid", "Vienna"];
const SIGNS = ["🚀", "🎉", "🌍", "🔥", "🐍", "🌊", "⭐", "🍎"];

/** The demonstration's model reasons of them in the same words whatever else is in its batch. */
const TALK = [
  ...["How are you?", "Thank you!", "Who are you?", "Goodbye!", "What can you do?", "Are you human?", "Good morning!"],
  "Hello!",
];

const KINDS = {
  text: { question: (variant) => `Count from 1 to ${75 - 5 * variant}.` },
  "characters of several tokens": { question: (variant) => `Repeat: ${pick(SIGNS, variant)} hello world` },
  reasoning: { question: (variant) => `What is ${8 + variant} + 5?`, thinks: true },
  "a call that the model chooses": {
    question: (variant) => `What is the weather in ${pick(CITIES, variant)}?`,
    tools: "chosen",
  },
  "a strict call full of escapes": {
    question: (variant) => `Write the lines for ${pick(CITIES, variant)}.`,
    tools: "required",
  },
  "a strict schema": { question: (variant) => `Give me member ${40 + variant}.`, schema: MEMBERS },
  "reasoning before a strict schema": {
    question: (variant) => pick(TALK, variant) ?? "",
    schema: MEMBERS,
    thinks: true,
  },
} as const satisfies Readonly<Record<string, Wanted>>;

export type AnswerKind = keyof typeof KINDS;
export const ANSWER_KINDS = Object.keys(KINDS) as readonly AnswerKind[];

export function requestFor(path: Path, kind: AnswerKind, variant: number, stream: boolean): object {
  const wanted: Wanted = KINDS[kind];
  const question = wanted.question(variant);
  const common = { model: "svc-qwen", temperature: 0, stream };
  if (path === "/v1/messages") return { ...common, ...forMessages(wanted, question) };
  if (path === "/v1/responses") return { ...common, ...forResponses(wanted, question) };
  return { ...common, ...forChat(wanted, question), ...(stream && { stream_options: { include_usage: true } }) };
}

/** A limit for runaway answers only, which the demonstration's model may generate. */
const MAX_TOKENS = sizeOf({ quick: 600, promised: 1_200 });

const FUNCTIONS = [
  { name: "get_weather", description: "Get the weather for a city", parameters: CITY, strict: false },
  { name: "write_lines", description: "Write lines", parameters: LINES, strict: true },
];
/** A required call is the one of lines, and the only one: after it the model's output varies. */
const offered = ({ tools }: Wanted) => FUNCTIONS.slice(tools === "required" ? 1 : 0, tools === "chosen" ? 1 : 2);

function forChat(wanted: Wanted, content: string): object {
  const { schema, tools, thinks } = wanted;
  return {
    max_completion_tokens: MAX_TOKENS,
    messages: [{ role: "user", content }],
    reasoning_effort: thinks ? "low" : "none",
    ...(tools && {
      tools: offered(wanted).map((one) => ({ type: "function", function: one })),
      tool_choice: tools === "required" ? "required" : "auto",
      ...(tools === "required" && { parallel_tool_calls: false }),
    }),
    ...(schema && { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } }),
  };
}

function forMessages(wanted: Wanted, content: string): object {
  const { schema, tools, thinks } = wanted;
  return {
    max_tokens: MAX_TOKENS,
    messages: [{ role: "user", content }],
    thinking: thinks ? { type: "enabled", budget_tokens: 1_024 } : { type: "disabled" },
    ...(tools && {
      tools: offered(wanted).map(({ parameters, ...one }) => ({ ...one, input_schema: parameters })),
      tool_choice: tools === "required" ? { type: "any", disable_parallel_tool_use: true } : { type: "auto" },
    }),
    ...(schema && { output_config: { format: { type: "json_schema", schema } } }),
  };
}

function forResponses(wanted: Wanted, input: string): object {
  const { schema, tools, thinks } = wanted;
  return {
    max_output_tokens: MAX_TOKENS,
    input,
    reasoning: { effort: thinks ? "low" : "none" },
    ...(tools && {
      tools: offered(wanted).map((one) => ({ type: "function", ...one })),
      tool_choice: tools === "required" ? "required" : "auto",
      ...(tools === "required" && { parallel_tool_calls: false }),
    }),
    ...(schema && { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } }),
  };
}
