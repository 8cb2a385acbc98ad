import { marksOfText, type OutputMarkers } from "../../../../engine/output-parser/markers.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import { formOf } from "../../../../engine/tool-calls/forms.ts";
import type { ParseOptions } from "./parse-output.ts";

export type SampleCall = { readonly name: string; readonly args: Readonly<Record<string, unknown>> };

/** A family of models: its profile, and an independent writer of its calls. */
export type Family = {
  readonly profile: string;
  readonly write: (calls: readonly SampleCall[]) => string;
  /** The calls as a grammar writes them. Absent: as `write` does. */
  readonly written?: (calls: readonly SampleCall[]) => string;
  /** The tags around a value that is read as a whole. Absent: no such value. */
  readonly whole?: readonly [open: string, close: string];
  /** Calls count at the start of the text only. */
  readonly onlyAtStart?: boolean;
};

const SCHEMA = {
  type: "object",
  properties: {
    q: { type: "string" },
    n: { type: "integer" },
    deep: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    maybe: { anyOf: [{ type: "string" }, { type: "null" }] },
    free: {},
  },
};

export const TOOLS = [
  { name: "search", parametersJsonSchema: JSON.stringify(SCHEMA) },
  { name: "run", parametersJsonSchema: "" },
];

const json = (value: unknown) => JSON.stringify(value).replaceAll(/([:,])(?=["[{\dtfn])/g, "$1 ");
const plain = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
const each = (args: SampleCall["args"], parameter: (key: string, value: unknown) => string) =>
  Object.entries(args)
    .map(([key, value]) => parameter(key, value))
    .join("");

const object = ({ name, args }: SampleCall, key = "arguments") => `{"name": "${name}", "${key}": ${json(args)}}`;
const functionTags = ({ name, args }: SampleCall) =>
  `<tool_call>\n<function=${name}>\n${each(args, (key, value) => `<parameter=${key}>\n${plain(value)}\n</parameter>\n`)}</function>\n</tool_call>`;
const typedTag = (sign: string) => (key: string, value: unknown) =>
  `<${sign}parameter name="${key}" string="${typeof value === "string"}">${plain(value)}</${sign}parameter>\n`;
const typedTags =
  (outer: string, sign = "｜DSML｜") =>
  (calls: readonly SampleCall[]) =>
    `<${sign}${outer}>\n${calls
      .map(({ name, args }) => `<${sign}invoke name="${name}">\n${each(args, typedTag(sign))}</${sign}invoke>\n`)
      .join("")}</${sign}${outer}>`;
const hermes = (calls: readonly SampleCall[]) =>
  calls.map((call) => `<tool_call>\n${object(call)}\n</tool_call>`).join("\n");
const kimi = (calls: readonly SampleCall[]) =>
  `<|tool_calls_section_begin|>${calls
    .map(
      ({ name, args }, i) =>
        `<|tool_call_begin|>functions.${name}:${i}<|tool_call_argument_begin|>${json(args)}<|tool_call_end|>`,
    )
    .join("")}<|tool_calls_section_end|>`;
const deepseekV3 = (calls: readonly SampleCall[]) =>
  `<｜tool▁calls▁begin｜>${calls
    .map(
      ({ name, args }) =>
        `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(args)}\n\`\`\`<｜tool▁call▁end｜>`,
    )
    .join("\n")}<｜tool▁calls▁end｜>`;
const kimiK3 = (calls: readonly SampleCall[]) =>
  `<|open|>tools<|sep|>${calls
    .map(
      ({ name, args }, i) =>
        `<|open|>call tool="${name}" index="${i + 1}"<|sep|>${each(
          args,
          (key, value) =>
            `<|open|>argument key="${key}" type="${typeNameOf(value)}"<|sep|>${plain(value)}<|close|>argument<|sep|>`,
        )}<|close|>call<|sep|>`,
    )
    .join("")}<|close|>tools<|sep|>`;
const typeNameOf = (value: unknown) => {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
};
const element = (key: string, inside: string) => `]<]minimax[>[<${key}>${inside}]<]minimax[>[</${key}>`;
const elements = (value: unknown): string => {
  if (Array.isArray(value)) return value.map((item) => element("item", elements(item))).join("");
  if (typeof value !== "object" || value === null) return plain(value);
  return each({ ...value }, (key, inside) => element(key, elements(inside)));
};
const minimaxM3 = (inside: (value: unknown) => string) => (calls: readonly SampleCall[]) =>
  `]<]minimax[>[<tool_call>\n${calls
    .map(
      ({ name, args }) =>
        `]<]minimax[>[<invoke name="${name}">${each(args, (key, value) => element(key, inside(value)))}]<]minimax[>[</invoke>\n`,
    )
    .join("")}]<]minimax[>[</tool_call>`;
const mistralArgs = (calls: readonly SampleCall[]) =>
  calls.map(({ name, args }) => `[TOOL_CALLS]${name}[ARGS]${json(args)}`).join("");

/** Texts between marks instead of quotation marks, and bare keys. */
const marked = (value: unknown): string => {
  if (typeof value === "string") return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(marked).join(",")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  return `{${Object.entries(value)
    .map(([key, inside]) => `${key}:${marked(inside)}`)
    .join(",")}}`;
};
const gemma4 = (inside: (value: unknown) => string) => (calls: readonly SampleCall[]) =>
  calls
    .map(({ name, args }) => {
      const parameters = Object.entries(args).map(([key, value]) => `${key}:${inside(value)}`);
      return `<|tool_call>call:${name}{${parameters.join(",")}}<tool_call|>`;
    })
    .join("");

export const FAMILIES: readonly Family[] = [
  { profile: "hermes-thinking", write: hermes },
  { profile: "hermes", write: hermes },
  { profile: "qwen3", write: hermes },
  {
    profile: "glm-4.5",
    write: (calls) =>
      calls
        .map(
          ({ name, args }) =>
            `<tool_call>${name}\n${each(args, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${plain(value)}</arg_value>\n`)}</tool_call>`,
        )
        .join("\n"),
  },
  {
    profile: "glm-4.7",
    write: (calls) =>
      calls
        .map(
          ({ name, args }) =>
            `<tool_call>${name}${each(args, (key, value) => `<arg_key>${key}</arg_key><arg_value>${plain(value)}</arg_value>`)}</tool_call>`,
        )
        .join(""),
  },
  { profile: "qwen3-coder", write: (calls) => calls.map(functionTags).join("\n") },
  { profile: "qwen3.5", write: (calls) => calls.map(functionTags).join("\n") },
  {
    profile: "minimax-m2",
    write: (calls) =>
      `<minimax:tool_call>\n${calls
        .map(
          ({ name, args }) =>
            `<invoke name="${name}">\n${each(args, (key, value) => `<parameter name="${key}">${plain(value)}</parameter>\n`)}</invoke>\n`,
        )
        .join("")}</minimax:tool_call>`,
  },
  { profile: "minimax-m3", write: minimaxM3(elements), written: minimaxM3(plain), whole: ["<tags>", "</tags>"] },
  { profile: "kimi-k3", write: kimiK3 },
  { profile: "kimi-k2", write: kimi },
  { profile: "kimi-k2-thinking", write: kimi },
  { profile: "deepseek-v3", write: deepseekV3 },
  { profile: "deepseek-r1", write: deepseekV3 },
  {
    profile: "deepseek-v3.1",
    write: (calls) =>
      `<｜tool▁calls▁begin｜>${calls
        .map(({ name, args }) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(args)}<｜tool▁call▁end｜>`)
        .join("")}<｜tool▁calls▁end｜>`,
  },
  { profile: "deepseek-v3.2", write: typedTags("function_calls") },
  { profile: "deepseek-v4", write: typedTags("tool_calls") },
  { profile: "deepseek-v4.1", write: typedTags("calls", "｜DSML｜ ") },
  {
    profile: "gemma-4",
    write: gemma4(marked),
    written: gemma4((value) => (typeof value === "string" ? marked(value) : json(value))),
  },
  {
    profile: "gpt-oss",
    write: (calls) =>
      calls
        .map(({ name, args }) => `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(args)}`)
        .join("<|call|><|start|>assistant"),
    written: (calls) =>
      calls
        .map(({ name, args }) => `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(args)}`)
        .join(""),
  },
  {
    profile: "llama-3",
    write: (calls) => calls.map((call) => object(call, "parameters")).join("; "),
    onlyAtStart: true,
  },
  { profile: "mistral", write: (calls) => `[TOOL_CALLS][${calls.map((call) => object(call)).join(", ")}]` },
  { profile: "mistral-args", write: mistralArgs },
  { profile: "magistral", write: mistralArgs },
];

const MARKERS = new Map<string, OutputMarkers>();

/** Returns the markers of a profile, whose file is read once. */
export function markersOf(profile: string): OutputMarkers {
  const known = MARKERS.get(profile);
  if (known !== undefined) return known;
  const { reasoning, toolCall, text } = loadProfile(profile);
  const markers = { ...(reasoning ? { reasoning } : {}), ...(toolCall ? { toolCall } : {}), ...(text ? { text } : {}) };
  MARKERS.set(profile, markers);
  return markers;
}

/** Returns the parse options of the family with the tools `search` and `run`. */
export function optionsOf(profile: string): ParseOptions {
  return { markers: markersOf(profile), argumentTypes: argumentTypes(TOOLS) };
}

/** Returns a text without the marks around texts and groups of calls, which are dropped if they stand alone. */
export function withoutStrays(profile: string, text: string): string {
  const { toolCall, reasoning, text: around } = markersOf(profile);
  const reading = toolCall && formOf(toolCall).reading(toolCall, { names: new Set(), argumentTypes: () => undefined });
  const thoughts = reasoning?.anywhere ? [reasoning.close] : [];
  const marks = [
    ...(reading?.strays ?? []),
    ...(reading?.looseClosers ?? []),
    ...thoughts,
    ...(around ? marksOfText(around) : []),
  ];
  return marks.filter((mark) => mark !== "").reduce((rest, mark) => rest.replaceAll(mark, ""), text);
}
