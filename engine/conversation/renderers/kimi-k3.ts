import {
  type TemplateCall,
  type TemplateMessage,
  type TemplateTool,
  templateJson,
} from "../history/template-messages.ts";
import { JsonNumber } from "../jinja/values.ts";
import { type Renderer, type RendererInput, refusal } from "./renderer.ts";

const END = "<|end_of_msg|>";
const EFFORTS: readonly unknown[] = ["low", "high", "max"];

type Attributes = Readonly<Record<string, string | number>>;

/** Kimi-K3: elements with attributes, of which only the marks around their names are control tokens. */
export const kimiK3: Renderer = ({ messages, tools, variables, opensTurn, mark, quoted }) => {
  const { thinking = variables.enable_thinking ?? true, reasoning_effort: word } = variables;
  const thinks = thinking === true && word !== "none";
  const effort = variables.thinking_effort ?? word ?? "max";
  const open = (name: string, attributes: Attributes = {}) => opening(name, attributes, quoted);
  const message = (attributes: Attributes, content: string) =>
    `${open("message", attributes)}${content}${closing("message")}${END}`;

  const head: string[] = [];
  if (tools.length > 0) head.push(message({ role: "system", type: "tool-declare" }, toolsText(tools)));
  if (thinks && !EFFORTS.includes(effort)) throw refusal("The effort is none of the model.");
  if (thinks) head.push(message({ role: "system", type: "thinking-effort" }, effortText(String(effort))));

  let calls: readonly TemplateCall[] = [];
  let results = 0;
  const written = inOrderOfCalls(messages).map(({ message: said, number }) => {
    const { role, content } = said;
    const named: Attributes = said.name ? { name: said.name } : {};
    if (role === "tool") {
      results += 1;
      const tool = toolOf(said, calls) ?? calls[results - 1]?.function.name;
      if (tool === undefined) throw refusal("A tool result names no tool.");
      return mark(number) + message({ role, tool, index: results }, content);
    }
    if (role !== "assistant") return mark(number) + message({ role, ...named }, content);
    calls = said.tool_calls ?? [];
    results = 0;
    const thought = said.reasoning_content?.trim() ? said.reasoning_content : "";
    const reasoning = thinks ? open("think") + thought + closing("think") : "";
    const response = open("response") + content + closing("response");
    return mark(number) + message({ role, ...named }, reasoning + response + callsText(calls, open));
  });
  const opened = opensTurn ? open("message", { role: "assistant" }) + open(thinks ? "think" : "response") : "";
  return head.join("") + written.join("") + opened;
};

function opening(name: string, attributes: Attributes, quoted: RendererInput["quoted"]): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}=${quoted(String(value), inQuotes)}`);
  return `<|open|>${name}${written.join("")}<|sep|>`;
}

function inQuotes(text: string): string {
  return `"${text.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"`;
}

function closing(name: string): string {
  return `<|close|>${name}<|sep|>`;
}

function callsText(calls: readonly TemplateCall[], open: (name: string, attributes?: Attributes) => string): string {
  if (calls.length === 0) return "";
  const written = calls.map(({ function: { name, arguments: given } }, at) => {
    const content =
      typeof given === "string"
        ? open("json", { type: "object" }) + given + closing("json")
        : [...given]
            .map(([key, value]) => {
              const text = typeof value === "string" ? value : templateJson(value);
              return open("argument", { key, type: typeOf(value) }) + text + closing("argument");
            })
            .join("");
    return open("call", { tool: name, index: at + 1 }) + content + closing("call");
  });
  return open("tools") + written.join("") + closing("tools");
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (value instanceof JsonNumber) return "number";
  if (value instanceof Map) return "object";
  return Array.isArray(value) ? "array" : typeof value;
}

type Numbered = { readonly message: TemplateMessage; readonly number: number };

/** Returns the messages with the results of each run in the order of their calls, where all of them have one. */
function inOrderOfCalls(messages: readonly TemplateMessage[]): readonly Numbered[] {
  const ordered: Numbered[] = [];
  let calls: readonly TemplateCall[] = [];
  let run: Numbered[] = [];
  const flush = () => {
    const place = ({ message: { tool_call_id: id } }: Numbered) => calls.findIndex((call) => call.id === id);
    if (run.every((one) => place(one) >= 0)) run.sort((a, b) => place(a) - place(b));
    ordered.push(...run);
    run = [];
  };
  for (const [number, message] of messages.entries()) {
    if (message.role === "tool") {
      run.push({ message, number });
      continue;
    }
    flush();
    if (message.role === "assistant") calls = message.tool_calls ?? [];
    ordered.push({ message, number });
  }
  flush();
  return ordered;
}

/** Returns the name of the tool that a result is of; undefined where neither its call nor itself names one. */
function toolOf({ tool_call_id: id, name }: TemplateMessage, calls: readonly TemplateCall[]): string | undefined {
  return calls.find((call) => call.id === id)?.function.name ?? (name === "" ? undefined : name);
}

/** The texts of the model's own format, which it was trained with. */
function toolsText(tools: readonly TemplateTool[]): string {
  const specs = templateJson(tools, { separators: [",", ":"], sortKeys: true });
  return `# Tools\nHere are the available tools, described in JSONSchema.\n\n\`\`\`json\n${specs}\n\`\`\``;
}

function effortText(effort: string): string {
  return `\`thinking_effort\` guides on how much to think in your thinking channel (not including the response channel), supported values include \`low\`, \`medium\`, \`high\`, and \`max\`.\nNow the system is invoked with \`thinking_effort=${effort}\`.`;
}
