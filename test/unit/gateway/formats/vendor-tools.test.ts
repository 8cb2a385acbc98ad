import { describe, expect, test } from "vitest";
import { CompletionFold } from "../../../../gateway/formats/completion.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { framesOf } from "../../../support/checkers/stream-text.ts";
import { blockEnd, delta, finished, started, toolCallStart } from "../../../support/events/events.ts";
import { valueAt } from "../../../support/http/value-at.ts";
import { head, prepare, refusal, requestOf } from "./fixture.ts";

/* Tools that a vendor defines and the caller runs: functions towards the engine, their own items towards the caller. */

const user = { role: "user", content: "hi" };

describe("messages", () => {
  const toolOf = (fields: object) => {
    const [tool] = requestOf(messages, { tools: [fields] }).tools;
    return { ...tool, schema: JSON.parse(tool?.parametersJsonSchema ?? "") };
  };

  test.each([
    [{ type: "bash_20241022", name: "bash" }, ["command", "restart"]],
    [{ type: "bash_20250124", name: "bash" }, ["command", "restart"]],
    [
      { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 10_000 },
      [...["command", "path", "file_text", "old_str", "insert_line", "view_range", "new_str", "insert_text"]],
    ],
    [
      { type: "text_editor_20250124", name: "str_replace_editor" },
      ["command", "path", "file_text", "old_str", "insert_line", "view_range", "new_str"],
    ],
    [
      { type: "memory_20250818", name: "memory" },
      [
        ...["command", "path", "file_text", "old_str", "insert_line", "view_range", "new_str", "insert_text"],
        ...["old_path", "new_path"],
      ],
    ],
    [
      {
        type: "computer_20251124",
        name: "computer",
        display_width_px: 1024,
        display_height_px: 768,
        enable_zoom: true,
      },
      [
        ...["action", "coordinate", "start_coordinate", "text", "duration", "scroll_direction", "scroll_amount"],
        "region",
      ],
    ],
  ])("%j is a function with its public fields", (tool, fields) => {
    const { name, description, schema } = toolOf(tool);
    expect(name).toBe(tool.name);
    expect(description).not.toBe("");
    expect(Object.keys(schema.properties)).toEqual(fields);
    expect(schema).toMatchObject({ type: "object", additionalProperties: false });
  });

  test("versions differ in the commands of an editor, and a screen in its size and zoom", () => {
    const commands = (type: string) => toolOf({ type, name: "edit" }).schema.properties.command.enum;
    expect(commands("text_editor_20250124")).toContain("undo_edit");
    expect(commands("text_editor_20250429")).not.toContain("undo_edit");
    const screen = { type: "computer_20250124", name: "computer", display_width_px: 1024, display_height_px: 768 };
    expect(toolOf(screen).description).toContain("1024 x 768");
    expect(toolOf(screen).schema.properties.action.enum).not.toContain("zoom");
  });

  test("settings of tools count as for others", () => {
    const tool = { type: "bash_20250124", name: "bash", cache_control: { type: "ephemeral" }, strict: true };
    expect(toolOf(tool)).toMatchObject({ strict: true, cacheBreakpoint: {} });
    expect(requestOf(messages, { tools: [{ ...tool, defer_loading: true }] }).tools).toEqual([]);
  });

  test.each(["web_search_20260318", "code_execution_20260521", "computer_toolset_20260801", "bash_x", "zzz"])(
    "the type %s is refused",
    (type) => {
      expect(refusal(messages, { tools: [{ type, name: "x" }] })).toMatch(/^tools\.0\.input_schema: Field required;/);
    },
  );
});

const TOOLS = ["shell", "local_shell", "apply_patch"] as const;
const tools = TOOLS.map((type) => ({ type }));

function answerOf(name: string, argumentsJson: string, complete = true) {
  const events = [
    ...[started(), toolCallStart(0, name, "c")],
    ...(argumentsJson === "" ? [] : [delta(0, argumentsJson)]),
    ...[blockEnd(0, complete), finished()],
  ];
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  const folded = valueAt(prepare(responses, { tools }).reply(head, fold.result()), "output", 0);
  const encoder = prepare(responses, { tools, stream: true }).encoder(head);
  const frames = framesOf(events.map((event) => encoder.next(event)).join("")).map(({ data }) => data);
  return { folded, frames };
}

describe("responses", () => {
  test("each is a strict function by the name of its type, and is repeated in the reply", () => {
    const local = { type: "shell", environment: { type: "local", skills: [SKILL] } };
    const request = requestOf(responses, { tools: [local, ...tools.slice(1)] });
    expect(request.tools.map(({ name, strict }) => [name, strict])).toEqual(TOOLS.map((name) => [name, true]));
    expect(request.tools[0]?.description).toContain("- charts, in /skills/charts: Draws charts.");
    const encoder = prepare(responses, { tools: [local, ...tools.slice(1)] }).encoder(head);
    expect(valueAt(framesOf(encoder.keepAlive())[0]?.data, "response", "tools")).toEqual([local, ...tools.slice(1)]);
  });

  const SKILL = { name: "charts", path: "/skills/charts", description: "Draws charts." };

  const CALLS = [
    [
      "shell",
      '{"commands":["ls","pwd"],"timeout_ms":1000}',
      {
        type: "shell_call",
        action: { commands: ["ls", "pwd"], timeout_ms: 1000, max_output_length: null },
        environment: { type: "local" },
      },
    ],
    [
      "local_shell",
      '{"command":["ls","-la"],"working_directory":"/tmp"}',
      {
        type: "local_shell_call",
        action: { type: "exec", command: ["ls", "-la"], env: {}, timeout_ms: null, working_directory: "/tmp" },
      },
    ],
    [
      "apply_patch",
      '{"type":"update_file","path":"a.ts","diff":"@@\\n-a\\n+b"}',
      { type: "apply_patch_call", operation: { type: "update_file", path: "a.ts", diff: "@@\n-a\n+b" } },
    ],
    [
      "apply_patch",
      '{"type":"delete_file","path":"a.ts","diff":""}',
      { type: "apply_patch_call", operation: { type: "delete_file", path: "a.ts" } },
    ],
  ] as const;

  test.each(CALLS)(
    "a call of %s with %s has the item of its type, streamed and folded",
    (name, argumentsJson, item) => {
      const { folded, frames } = answerOf(name, argumentsJson);
      const whole = { id: expect.any(String), call_id: "call_c", status: "completed", ...item };
      expect(folded).toEqual(whole);
      expect(frames.map((data) => valueAt(data, "type"))).toEqual([
        ...["response.created", "response.in_progress", "response.output_item.added", "response.output_item.done"],
        "response.completed",
      ]);
      expect(valueAt(frames[2], "item")).toMatchObject({ type: item.type, status: "in_progress" });
      expect(valueAt(frames[3], "item")).toEqual(valueAt(frames[4], "response", "output", 0));
      expect(valueAt(frames[3], "item")).toEqual({ ...whole, id: expect.any(String) });
    },
  );

  test.each(CALLS)("a call of %s that was cut holds nothing to run", (name, argumentsJson) => {
    const { folded } = answerOf(name, argumentsJson.slice(0, -1), false);
    expect(folded).toMatchObject({ status: "incomplete" });
    expect(JSON.stringify(folded)).not.toMatch(/"ls"|a\.ts/);
  });

  test.each(CALLS)("the item of a call of %s with %s comes back as it was", (name, argumentsJson) => {
    const { folded } = answerOf(name, argumentsJson);
    const output = { shell: SHELL_OUTPUT, local_shell: "done", apply_patch: "done" }[name];
    const result = { type: `${valueAt(folded, "type")}_output`, call_id: "call_c", status: "completed", output };
    const { messages: all } = requestOf(responses, { tools, input: [user, folded, result] });
    const call = valueAt(all, 1, "parts", 0, "kind", "value");
    expect(call).toMatchObject({ callId: "call_c", name });
    expect(JSON.parse(String(valueAt(call, "argumentsJson")))).toEqual(JSON.parse(argumentsJson));
    expect(valueAt(all, 2, "parts", 0, "kind", "value", "name")).toBe(name);
  });

  const SHELL_OUTPUT = [
    { stdout: "a\n", stderr: "", outcome: { type: "exit", exit_code: 0 } },
    { stdout: "", stderr: "b", outcome: { type: "timeout" } },
  ];

  const resultOf = (call: object, output: object) =>
    valueAt(requestOf(responses, { input: [user, call, output] }).messages, 2, "parts", 0, "kind", "value");
  const shellCall = { type: "shell_call", call_id: "c", action: { commands: ["x"] } };
  const patchCall = { type: "apply_patch_call", call_id: "c", operation: { type: "delete_file", path: "a" } };

  test("the model reads output, errors and the end of each command", () => {
    const result = resultOf(shellCall, { type: "shell_call_output", call_id: "c", output: SHELL_OUTPUT });
    expect(valueAt(result, "content", 0, "kind", "value", "text")).toBe(
      "a\n\nExit code: 0\n\nErrors:\nb\nIt timed out.",
    );
  });

  test("a change that failed is an error, with words where the caller has none", () => {
    const output = { type: "apply_patch_call_output", call_id: "c", status: "failed" };
    expect(resultOf(patchCall, output)).toMatchObject({ isError: true });
    expect(valueAt(resultOf(patchCall, output), "content", 0, "kind", "value", "text")).toBe("The change failed.");
  });

  test("the result of a local shell may name its call by its own id", () => {
    const call = { type: "local_shell_call", call_id: "c", action: { type: "exec", command: ["ls"], env: {} } };
    expect(resultOf(call, { type: "local_shell_call_output", id: "c", output: "a" })).toMatchObject({ callId: "c" });
  });

  test("a choice names them by their types", () => {
    const chosen = requestOf(responses, { tools, tool_choice: { type: "apply_patch" } }).toolChoice;
    expect(chosen).toMatchObject({ name: "apply_patch" });
    const allowed = { type: "allowed_tools", mode: "auto", tools: [{ type: "shell" }] };
    expect(requestOf(responses, { tools, tool_choice: allowed }).toolChoice).toMatchObject({ allowedNames: ["shell"] });
  });

  test.each<[object, string]>([
    [{ tools: [{ type: "shell", environment: { type: "container_auto" } }] }, "unsupported_value tools[0].environment"],
    [{ tools: [{ type: "shell" }, { type: "function", name: "shell" }] }, "invalid_value tools[1].name"],
    [{ tool_choice: { type: "shell" }, tools: [{ type: "apply_patch" }] }, "invalid_value tool_choice"],
    [{ input: [user, shellCall] }, "invalid_value input[1].call_id"],
    [{ input: [user, { ...shellCall, action: { commands: "ls" } }] }, "invalid_type input[1].action.commands"],
    [{ input: [user, { ...patchCall, operation: { type: "move" } }] }, "invalid_value input[1].operation.type"],
    [{ input: [user, { type: "shell_call_output", call_id: "c", output: [] }] }, "invalid_value input[1].call_id"],
    [
      { input: [user, { type: "local_shell_call_output", output: "x" }] },
      "missing_required_parameter input[1].call_id",
    ],
  ])("tools of vendors in responses are refused with the path: %j", (fields, expected) => {
    expect(refusal(responses, fields)).toBe(expected);
  });
});
