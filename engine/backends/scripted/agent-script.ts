import { shownTools } from "../../../deploy/runtime/contract/shown-tools.ts";
import {
  type Event,
  FinishReason,
  type GenerateRequest,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  type Message,
  type Part,
  Role,
  type Tool,
  ToolChoiceMode,
} from "../../../proto/gen/svc/inference/v1/messages.ts";
import { exampleValue, readSchema, type Schema } from "./example-value.ts";

/*
 * Guides an unmodified coding agent through a task without a model: when asked for a file, it calls the agent's own
 * tool for writing one (or its shell), and confirms once the tool's result is back.
 */

const FILE = "hello.txt";
const CONTENT = "Hello from the scripted engine.\n";

const WRITES = /^(write|write_file|create|create_file|write_to_file|builtin_create_new_file|editor)$/i;
const SHELLS = /(bash|shell|exec|run_command|terminal)/i;

/** Returns the events of the answer to a request: a call of the agent's own tool, or a sentence. */
export function agentTurn(request: GenerateRequest): readonly Event[] {
  const inputTokens = promptTokens(request.messages);
  const started = { nodeId: "scripted", modelRevision: "scripted", inputTokens, sampling: undefined };
  const answer = request.maxOutputTokens === 0 ? [finished(FinishReason.STOP, 0)] : turn(request);
  return [{ kind: { $case: "started", value: started } }, ...answer];
}

/** Estimates the number of tokens of a prompt: a quarter of its characters. */
export function promptTokens(messages: readonly Message[]): number {
  return Math.ceil(messages.reduce((sum, message) => sum + textOf(message).length, 0) / 4) + 1;
}

function turn(request: GenerateRequest): Event[] {
  const constraint = request.outputConstraint?.kind;
  if (constraint?.$case === "jsonSchema")
    return text(JSON.stringify(exampleValue(readSchema(constraint.value.schemaJson, "output_constraint"))));
  if (constraint?.$case === "jsonObject") return text("{}");
  const tool = chosenTool(request);
  if (tool) return toolCall(request, tool);
  if (request.messages.at(-1)?.role === Role.TOOL) return text(`The tool has run; ${FILE} is written.`);
  return text("This is the scripted engine. Ask for a file to be written to see a tool call.");
}

function chosenTool({ tools: all, toolChoice, messages }: GenerateRequest): Tool | undefined {
  const tools = shownTools(all, messages);
  if (toolChoice?.mode === ToolChoiceMode.NAMED) return tools.find((tool) => tool.name === toolChoice.name);
  if (toolChoice?.mode === ToolChoiceMode.NONE) return undefined;
  const suited = tools.find((tool) => WRITES.test(tool.name)) ?? tools.find((tool) => SHELLS.test(tool.name));
  if (toolChoice?.mode === ToolChoiceMode.REQUIRED) return suited ?? tools[0];
  return newest(messages).some((message) => /\bfile\b/i.test(textOf(message))) ? suited : undefined;
}

/** Returns the user's messages behind the last answer: some agents put reminders, or system messages, behind the user's words. */
function newest(messages: readonly Message[]): readonly Message[] {
  const answered = messages.findLastIndex(({ role }) => role === Role.ASSISTANT || role === Role.TOOL);
  return messages.slice(answered + 1).filter(({ role }) => role === Role.USER);
}

function toolCall(request: GenerateRequest, tool: Tool): Event[] {
  const schema = readSchema(tool.parametersJsonSchema, "tools");
  const folder = workingFolder(request.messages);
  const path = folder ? `${folder}/${FILE}` : FILE;
  const command = `printf '%s' '${CONTENT}' > '${path}'`;
  const properties = Object.entries(schema.properties ?? {});
  const values: Record<string, unknown> = {};
  for (const [key, property] of properties) {
    const value = known(key, property, path, command);
    if (value !== undefined) values[key] = value;
    else if (schema.required?.includes(key)) values[key] = exampleValue(property);
  }
  const json = JSON.stringify(values);
  const half = Math.ceil(json.length / 2);
  // Two pieces, so that clients must join them.
  const pieces = [json.slice(0, half), json.slice(half)].filter((piece) => piece !== "");
  const callId = `call_${request.requestId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24)}`;
  return [
    start({ $case: "toolCall", value: { callId, name: tool.name } }),
    ...pieces.map(delta),
    end(),
    finished(FinishReason.TOOL_CALLS),
  ];
}

/** Returns the value of an argument by the argument names that agents use for writing files. */
function known(key: string, property: Schema, path: string, command: string): unknown {
  if (/^(file_?path|path|absolute_?path|file)$/i.test(key)) return path;
  if (/^(contents?|file_?text|new_?text|text)$/i.test(key)) return CONTENT;
  // The shell of Codex under its vendor's newest names takes a program that calls it.
  if (key === "input")
    return `const ran = await tools.exec_command({ cmd: ${JSON.stringify(command)} }); text(ran.output);`;
  if (!/^(command|cmd)$/i.test(key)) return undefined;
  // An editor's `command` is one of a few keywords; a shell's is text, or a list of words.
  if (property.enum) return property.enum.includes("create") ? "create" : property.enum[0];
  return property.type === "array" ? ["bash", "-lc", command] : command;
}

/** Returns the agent's working directory from its prompt, as some tools require absolute paths. */
function workingFolder(messages: readonly Message[]): string | undefined {
  for (const message of messages) {
    const found = /(?:working (?:in the )?directory:?|cwd[>:])\s*(?:is\s+)?(\/[^\s<>"'`]+)/i.exec(textOf(message));
    if (found?.[1]) return found[1].replace(/[.,;)]+$/, "");
  }
  return undefined;
}

function textOf({ parts }: Message): string {
  const text = ({ kind }: Part) => (kind?.$case === "text" ? kind.value.text : "");
  return parts.map(text).join("\n");
}

function text(content: string): Event[] {
  const pieces = content.match(/\S+\s*|\s+/g) ?? [];
  return [start({ $case: "text", value: {} }), ...pieces.map(delta), end(), finished(FinishReason.STOP)];
}

type Block = Extract<NonNullable<Event["kind"]>, { $case: "blockStarted" }>["value"]["block"];

function start(block: Block): Event {
  return { kind: { $case: "blockStarted", value: { index: 0, block } } };
}

function delta(piece: string): Event {
  return { kind: { $case: "blockDelta", value: { index: 0, text: piece, logprobs: [] } } };
}

function end(): Event {
  return { kind: { $case: "blockEnded", value: { index: 0, complete: true } } };
}

function finished(reason: FinishReason, outputTokens = 16): Event {
  const usage = { inputTokens: 64, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens, reasoningTokens: 0 };
  return { kind: { $case: "finished", value: { reason, usage, timings: undefined } } };
}
