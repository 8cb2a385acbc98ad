import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { blockEnd, delta, finished, started, textAnswer, toolCallStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { anthropicOf, openaiOf } from "./clients.ts";

/* The vendors' own helpers and types with the tools that they define and callers run: a call, and its result. */

const ARGUMENTS: Readonly<Record<string, string>> = {
  memory: '{"command":"view","path":"/memories"}',
  shell: '{"commands":["ls"]}',
  local_shell: '{"command":["ls"]}',
  apply_patch: '{"type":"create_file","path":"a.ts","diff":"+a"}',
};

const service = serviceOfFile({}, ({ messages, tools }) => {
  if (messages.at(-1)?.role === Role.TOOL) return [textAnswer("Done.")];
  const calls = tools.map(({ name }, index) => [
    ...[toolCallStart(index, name, `call_${index}`), delta(index, ARGUMENTS[name] ?? ""), blockEnd(index)],
  ]);
  return [[started()], ...calls, [finished(FinishReason.TOOL_CALLS)]];
});

const resultsOf = () =>
  service
    .lastRequest()
    .messages.flatMap(({ parts }) => parts)
    .flatMap(({ kind }) => (kind?.$case === "toolResult" ? [kind.value] : []));

test("the tool runner runs the vendor's memory tool by its helper", async () => {
  const never = () => {
    throw new Error("the model asked for a view");
  };
  const views: unknown[] = [];
  const memory = betaMemoryTool({
    view: (command) => {
      views.push(command);
      return "notes.md";
    },
    ...{ create: never, str_replace: never, insert: never, delete: never, rename: never },
  });
  const runner = anthropicOf(service).beta.messages.toolRunner({
    ...{ model: "svc-qwen", max_tokens: 64, tools: [memory], messages: [{ role: "user", content: "hi" }] },
  });
  expect((await runner).content).toMatchObject([{ type: "text", text: "Done." }]);
  expect(views).toEqual([{ command: "view", path: "/memories" }]);
  expect(resultsOf()).toMatchObject([{ name: "memory", content: [{ kind: { value: { text: "notes.md" } } }] }]);
});

/** The caller's side of each type, as its own types have it. */
function outputOf(item: OpenAI.Responses.ResponseOutputItem): OpenAI.Responses.ResponseInputItem[] {
  if (item.type === "shell_call") {
    const output = item.action.commands.map((command) => ({
      ...{ stdout: `ran ${command}`, stderr: "" },
      outcome: { type: "exit" as const, exit_code: 0 },
    }));
    return [item, { type: "shell_call_output", call_id: item.call_id, output }];
  }
  if (item.type === "local_shell_call")
    return [item, { type: "local_shell_call_output", id: item.call_id, output: `ran ${item.action.command}` }];
  if (item.type === "apply_patch_call")
    return [
      item,
      {
        ...{ type: "apply_patch_call_output", call_id: item.call_id, status: "completed" },
        output: `wrote ${item.operation.path}`,
      },
    ];
  return [];
}

test("the items of shell, local shell and patches go to the caller and come back by the SDK's types", async () => {
  const client = openaiOf(service);
  const tools: OpenAI.Responses.Tool[] = [{ type: "shell" }, { type: "local_shell" }, { type: "apply_patch" }];
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "hi" }];
  const stream = () => client.responses.stream({ model: "svc-qwen", input, tools, store: false }).finalResponse();
  const { output } = await stream();
  expect(output.map(({ type }) => type)).toEqual(["shell_call", "local_shell_call", "apply_patch_call"]);
  input.push(...output.flatMap(outputOf));
  expect((await stream()).output_text).toBe("Done.");
  expect(resultsOf().map(({ name, content }) => [name, content[0]?.kind?.value])).toEqual([
    ["shell", expect.objectContaining({ text: "ran ls\nExit code: 0" })],
    ["local_shell", expect.objectContaining({ text: "ran ls" })],
    ["apply_patch", expect.objectContaining({ text: "wrote a.ts" })],
  ]);
});
