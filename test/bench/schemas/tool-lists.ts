import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import type { CallableTool } from "../../../engine/grammar/output/tool-call-grammar.ts";

export type ToolList = { readonly kind: string; readonly tools: readonly CallableTool[] };

const RECORDED = [
  ...["claude-332-1-system-role", "claude-332-3-tool-search-loaded", "codex-171-3-mcp-namespace"],
  ...["codex-171-11-tool-search-loaded", "opencode-compat-2-main"],
];

const EQUAL = {
  type: "object",
  properties: {
    text: { type: "string" },
    mode: { type: "string", enum: ["fast", "slow", "auto"] },
    count: { type: "integer", minimum: 1, maximum: 500 },
    items: {
      type: "array",
      items: {
        type: "object",
        properties: { id: { type: "integer" }, label: { type: "string" } },
        required: ["id", "label"],
        additionalProperties: false,
      },
    },
    at: { type: "string", format: "date-time" },
  },
  required: ["text", "mode", "count", "items", "at"],
  additionalProperties: false,
};

/** Returns the recorded tool lists of real agents, the longest of them made strict, and two made-up lists. */
export function toolLists(): readonly ToolList[] {
  const recorded = RECORDED.map((file) => ({ kind: "recorded lists, not strict", tools: recordedTools(file) }));
  const longest = recorded[1]?.tools ?? [];
  return [
    ...recorded,
    { kind: "60 made-up tools, not strict", tools: madeUp(60, "mcp__server__do_thing", {}, false) },
    { kind: `${longest.length} recorded tools, strict`, tools: longest.map((tool) => ({ ...tool, strict: true })) },
    { kind: "20 made-up tools, strict", tools: madeUp(20, "tool_number", EQUAL, true) },
  ];
}

function madeUp(count: number, name: string, schema: object, strict: boolean): readonly CallableTool[] {
  const parametersJsonSchema = JSON.stringify(schema);
  return Array.from({ length: count }, (_, at) => ({ name: `${name}_${at}`, parametersJsonSchema, strict }));
}

type RecordedTool = {
  readonly name?: string;
  readonly parameters?: object;
  readonly input_schema?: object;
  readonly function?: RecordedTool;
  readonly tools?: readonly RecordedTool[];
};

function recordedTools(file: string): readonly CallableTool[] {
  const text = readFileSync(join(projectFolder(), "test/agent-requests", `${file}.json`), "utf8");
  const { body }: { readonly body: { readonly tools: readonly RecordedTool[] } } = JSON.parse(text);
  const all = body.tools.flatMap((tool) => tool.tools ?? [tool.function ?? tool]);
  return all.flatMap(({ name, parameters, input_schema }) => {
    const schema = parameters ?? input_schema;
    return name && schema ? [{ name, parametersJsonSchema: JSON.stringify(schema), strict: false }] : [];
  });
}
