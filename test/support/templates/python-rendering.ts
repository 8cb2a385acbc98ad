import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { type HistoryMessage, reasoningOf, textOf } from "../../../engine/conversation/history/model-history.ts";
import { Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** The Python of the virtual environment that `.ci/run` creates. */
const PYTHON = process.env.SVC_TEST_PYTHON ?? join(ROOT, ".tools/bin/python");

const NEEDED = "jinja2==3.1.6";

/** The reason why tests with Python renderings are skipped; empty if they are not. */
export const noJinja =
  spawnSync(PYTHON, ["-c", "import jinja2"]).status === 0
    ? ""
    : `no Jinja: \`python3 -m venv .tools && .tools/bin/pip install ${NEEDED}\` brings it`;
if (noJinja !== "") process.stderr.write(`skipping the renderings of Python: ${noJinja}\n`);

export type PythonRender = { readonly source: string; readonly variables: Readonly<Record<string, unknown>> };

export type PythonRendered =
  | { readonly text: string; readonly error?: undefined }
  | { readonly text?: undefined; readonly error: string };

/** Renders in one Python process, in order. Throws if the process fails, as for invalid Jinja. */
export function renderedByPython(renders: readonly PythonRender[]): readonly PythonRendered[] {
  const templates = [...new Set(renders.map(({ source }) => source))];
  const numbers = new Map(templates.map((source, index) => [source, index]));
  const input = JSON.stringify({
    templates,
    renders: renders.map(({ source, variables }) => ({ template: numbers.get(source), variables })),
  });
  const script = join(ROOT, "test/support/templates/render-templates.py");
  const { status, stdout, stderr } = spawnSync(PYTHON, [script], {
    input,
    encoding: "utf8",
    maxBuffer: 1 << 30,
    env: { ...process.env, PYTHONIOENCODING: "utf-8" },
  });
  if (status !== 0) throw new Error(`Python could not render the templates: ${stderr}`);
  return JSON.parse(stdout);
}

/** A value that Python parses from JSON text itself, so that numbers keep all digits. */
const json = (text: string) => ({ $json: text });

/** Returns a history as users of transformers write it, in the form of a profile's template. */
export function pythonMessages(
  history: readonly HistoryMessage[],
  { historyArguments, historyReasoning }: { readonly historyArguments: string; readonly historyReasoning: string },
): readonly object[] {
  return history.map(({ role, parts }) => {
    const [first] = parts;
    if (first?.kind?.$case === "toolResult") {
      const { callId, name, content } = first.kind.value;
      return { role: "tool", content: textOf(content), tool_call_id: callId, name };
    }
    const calls = parts.flatMap(({ kind }) => {
      if (kind?.$case !== "toolCall") return [];
      const { callId, name, argumentsJson } = kind.value;
      const written = historyArguments === "text" ? argumentsJson : json(argumentsJson);
      return [{ id: callId, type: "function", function: { name, arguments: written } }];
    });
    const [thought, words] = [reasoningOf(parts), textOf(parts)];
    const asOne = historyReasoning === "thinking" && calls.length > 0 && thought !== "" && words !== "";
    return {
      role: role === Role.SYSTEM ? "system" : role === Role.USER ? "user" : "assistant",
      content: asOne ? "" : words,
      ...(thought !== "" && { [historyReasoning]: asOne ? `${thought}\n${words}` : thought }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
  });
}

export function pythonTools(tools: readonly Tool[]): readonly object[] | null {
  if (tools.length === 0) return null;
  return tools.map(({ name, description, parametersJsonSchema }) => ({
    type: "function",
    function: { name, description, parameters: json(parametersJsonSchema) },
  }));
}
