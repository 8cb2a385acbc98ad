import * as z from "zod";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject, jsonText } from "../../json/json-text.ts";
import { checked, unchecked } from "../checked.ts";
import { missing } from "../field-error.ts";
import { named, tag } from "../fields.ts";

/*
 * Tools that the vendor of the format defines by type alone, and the caller runs. The vendor's models know their
 * schemas; here the model reads them as functions, and their calls and results have the items of their type.
 */

const callId = z.string().min(1).describe("The id of the call.");
const answered = z.string().min(1).describe("The id of the call, which stands before.");
const milliseconds = z.number().nullish().describe("The longest time of the commands, in milliseconds.");

export const shellTool = named("ShellTool", "A shell that the caller runs.", {
  type: tag("shell"),
  environment: unchecked(
    z
      .looseObject({
        type: tag("local"),
        skills: z
          .array(
            z.looseObject({
              name: z.string().describe("The name of the skill."),
              description: z.string().describe("What it is for."),
              path: z.string().describe("The folder of its files."),
            }),
          )
          .nullish()
          .describe("Folders with instructions, which the model reads of."),
      })
      .nullish(),
  ).describe("`local` or absent, as no containers run here."),
});

export const localShellTool = named("LocalShellTool", "A shell of the caller that runs one command, in its old form.", {
  type: tag("local_shell"),
});

export const applyPatchTool = named("ApplyPatchTool", "The caller's files, which the model changes by diffs.", {
  type: tag("apply_patch"),
});

export const shellCallItem = named("InputShellCall", "A call of `shell` in an earlier answer.", {
  type: tag("shell_call"),
  call_id: callId,
  action: z
    .looseObject({
      commands: z.array(z.string()).describe("The commands."),
      timeout_ms: milliseconds,
      max_output_length: z.number().nullish().describe("The most characters of output."),
    })
    .describe("The order to the shell."),
});

export const shellOutputItem = named("ShellCallOutput", "The result of a call of `shell`.", {
  type: tag("shell_call_output"),
  call_id: answered,
  output: z
    .array(
      z.looseObject({
        stdout: z.string().nullish().describe("The output."),
        stderr: z.string().nullish().describe("The output of errors."),
        outcome: z
          .looseObject({
            type: z.string().describe("`exit`, or `timeout` of one that took too long."),
            exit_code: z.int().nullish().describe("The code of an exit."),
          })
          .nullish()
          .describe("How the command ended."),
      }),
    )
    .describe("What each command gave."),
});

export const localShellCallItem = named("InputLocalShellCall", "A call of `local_shell` in an earlier answer.", {
  type: tag("local_shell_call"),
  call_id: callId,
  action: z
    .looseObject({
      command: z.array(z.string()).describe("The command and its arguments."),
      working_directory: z.string().nullish().describe("The folder of the command."),
      timeout_ms: milliseconds,
    })
    .describe("The order to the shell."),
});

export const localShellOutputItem = named("LocalShellCallOutput", "The result of a call of `local_shell`.", {
  type: tag("local_shell_call_output"),
  id: z.string().nullish().describe("The id of the call, where `call_id` is absent."),
  call_id: z.string().nullish().describe("The id of the call, which stands before."),
  output: z.string().describe("The output, as text or as JSON text."),
});

export const patchCallItem = named("InputApplyPatchCall", "A call of `apply_patch` in an earlier answer.", {
  type: tag("apply_patch_call"),
  call_id: callId,
  operation: z
    .looseObject({
      type: z.enum(["create_file", "update_file", "delete_file"]).describe("The kind of the change."),
      path: z.string().describe("The path of the file."),
      diff: z.string().nullish().describe("The diff; none of a deletion."),
    })
    .describe("The change."),
});

export const patchOutputItem = named("ApplyPatchCallOutput", "The result of a call of `apply_patch`.", {
  type: tag("apply_patch_call_output"),
  call_id: answered,
  status: z.enum(["completed", "failed"]).describe("Whether the change was made."),
  output: z.string().nullish().describe("What the caller says of it."),
});

const status = z.enum(["in_progress", "completed", "incomplete"]).describe("How far the item is.");
const called = z.string().describe("The id of the call, which its output names.");

export const shellCall = named("OutputShellCall", "A call of `shell`.", {
  type: tag("shell_call"),
  id: z.string().describe("The id of the item, `sh_…`."),
  status,
  call_id: called,
  action: z
    .object({
      commands: z.array(z.string()).describe("The commands; none where the item is announced, or the call was cut."),
      timeout_ms: z.number().nullable().describe("The longest time of the commands, in milliseconds."),
      max_output_length: z.number().nullable().describe("The most characters of output."),
    })
    .describe("The order to the shell."),
  environment: z.object({ type: tag("local") }).describe("Where."),
});

export const localShellCall = named("OutputLocalShellCall", "A call of `local_shell`.", {
  type: tag("local_shell_call"),
  id: z.string().describe("The id of the item, `lsh_…`."),
  status,
  call_id: called,
  action: z
    .object({
      type: tag("exec"),
      command: z
        .array(z.string())
        .describe("The command and its arguments; empty where the item is announced, or the call was cut."),
      env: z.record(z.string(), z.string()).describe("Variables of the command."),
      timeout_ms: z.number().nullable().describe("The longest time of the command, in milliseconds."),
      working_directory: z.string().nullable().describe("The folder of the command."),
    })
    .describe("The order to the shell."),
});

export const patchCall = named("OutputApplyPatchCall", "A call of `apply_patch`.", {
  type: tag("apply_patch_call"),
  id: z.string().describe("The id of the item, `apc_…`."),
  status: status.describe("How far the item is; a call that was cut is not to be run."),
  call_id: called,
  operation: z
    .object({
      type: z.enum(["create_file", "update_file", "delete_file"]).describe("The kind of the change."),
      path: z.string().describe("The path of the file; empty where the item is announced, or the call was cut."),
      diff: z.string().optional().describe("The diff; none of a deletion."),
    })
    .describe("The change."),
});

/** The vendor's tools that callers run. Each is named by its type. */
export const VENDOR_TOOL_NAMES = ["shell", "local_shell", "apply_patch"] as const;

export type VendorToolName = (typeof VENDOR_TOOL_NAMES)[number];

export function isVendorTool({ type }: JsonObject): boolean {
  return VENDOR_TOOL_NAMES.some((name) => name === type);
}

/** A shell in a container runs at the vendor. */
export function isHosted({ environment }: JsonObject): boolean {
  return isJsonObject(environment) && environment.type !== "local";
}

const text = (description: string) => ({ type: "string", description });
const whole = (description: string) => ({ type: "integer", description });
const texts = (description: string) => ({ type: "array", items: { type: "string" }, description });
const object = (required: readonly string[], properties: JsonObject): JsonObject => ({
  ...{ type: "object", properties, required, additionalProperties: false },
});

const OPERATIONS = ["create_file", "update_file", "delete_file"] as const;

const FUNCTIONS: Readonly<Record<VendorToolName, { readonly description: string; readonly schema: JsonObject }>> = {
  shell: {
    description: "Runs commands in a shell on the user's machine, one after the other, and returns the output of each.",
    schema: object(["commands"], {
      commands: texts("The commands."),
      timeout_ms: whole("The longest time of the commands, in milliseconds."),
      max_output_length: whole("The most characters of output to return."),
    }),
  },
  local_shell: {
    description: "Runs one command on the user's machine and returns its output.",
    schema: object(["command"], {
      command: texts("The program and its arguments."),
      working_directory: text("The folder to run it in."),
      timeout_ms: whole("The longest time, in milliseconds."),
    }),
  },
  apply_patch: {
    description:
      "Creates, updates or deletes one file. The diff of a new file has `+` before each line. That of an update has hunks: `@@`, optionally with a line that stands before the change, then lines behind a space (kept), `-` (removed) or `+` (added), with some kept lines around each change.",
    schema: object(["type", "path", "diff"], {
      type: { type: "string", enum: OPERATIONS, description: "What to do." },
      path: text("The path of the file."),
      diff: text("The diff; empty for a deletion."),
    }),
  },
};

/** Returns the function that the model reads. `entry` is the declaration. */
export function vendorFunction(name: VendorToolName, { environment }: JsonObject) {
  const { description, schema } = FUNCTIONS[name];
  const skills = isJsonObject(environment) && Array.isArray(environment.skills) ? environment.skills : [];
  const shown = skills.flatMap((skill) =>
    isJsonObject(skill) ? [`- ${skill.name}, in ${skill.path}: ${skill.description}`] : [],
  );
  const hint = shown.length > 0 ? [`Skills, whose files can be read:\n${shown.join("\n")}`] : [];
  return { source: { name, description: [description, ...hint].join("\n\n"), strict: true }, schema };
}

type CallHead = Pick<z.output<typeof shellCall>, "id" | "status" | "call_id">;

/** Returns the item of a call; without arguments (`given`) that of one which is announced, cut or broken. */
export function vendorCall(name: VendorToolName, head: CallHead, given: JsonObject = {}) {
  switch (name) {
    case "shell": {
      const { commands, timeout_ms, max_output_length } = given;
      const limits = { timeout_ms: numberOf(timeout_ms), max_output_length: numberOf(max_output_length) };
      const action = { commands: textsOf(commands), ...limits };
      return { ...head, type: "shell_call", action, environment: { type: "local" } } as const;
    }
    case "local_shell": {
      const { command, timeout_ms, working_directory: folder } = given;
      const working_directory = typeof folder === "string" ? folder : null;
      const action = { type: "exec", command: textsOf(command), env: {}, timeout_ms: numberOf(timeout_ms) } as const;
      return { ...head, type: "local_shell_call", action: { ...action, working_directory } } as const;
    }
    case "apply_patch": {
      const type = OPERATIONS.find((one) => one === given.type) ?? "update_file";
      const diff = type === "delete_file" ? {} : { diff: textOf(given.diff) };
      return { ...head, type: "apply_patch_call", operation: { type, path: textOf(given.path), ...diff } } as const;
    }
  }
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(textOf) : [];
}

/** The items of these tools' calls and results, by type. */
export const VENDOR_CALLS = {
  shell_call: "shell",
  local_shell_call: "local_shell",
  apply_patch_call: "apply_patch",
} as const;

export const VENDOR_OUTPUTS = ["shell_call_output", "local_shell_call_output", "apply_patch_call_output"] as const;

/** Returns an earlier call from its item. Throws `ApiError`. */
export function readVendorCall(type: keyof typeof VENDOR_CALLS, item: JsonObject, path: FieldPath) {
  const argumentsOf = (fields: JsonObject) =>
    jsonText(Object.fromEntries(Object.entries(fields).filter(([, value]) => (value ?? undefined) !== undefined)));
  const name = VENDOR_CALLS[type];
  if (type === "apply_patch_call") {
    const { call_id, operation } = checked(patchCallItem, item, path);
    const { type: kind, path: file, diff } = operation;
    return { name, type, call_id, argumentsJson: argumentsOf({ type: kind, path: file, diff: diff ?? "" }) };
  }
  if (type === "shell_call") {
    const { call_id, action } = checked(shellCallItem, item, path);
    const { commands, timeout_ms, max_output_length } = action;
    return { name, type, call_id, argumentsJson: argumentsOf({ commands, timeout_ms, max_output_length }) };
  }
  const { call_id, action } = checked(localShellCallItem, item, path);
  const { command, working_directory, timeout_ms } = action;
  return { name, type, call_id, argumentsJson: argumentsOf({ command, working_directory, timeout_ms }) };
}

/** Returns the result of a call from its item, as the model reads it. Throws `ApiError`. */
export function readVendorOutput(type: (typeof VENDOR_OUTPUTS)[number], item: JsonObject, path: FieldPath) {
  if (type === "apply_patch_call_output") {
    const { call_id, status, output } = checked(patchOutputItem, item, path);
    const isError = status === "failed";
    return { type, call_id, isError, text: output || (isError ? "The change failed." : "Done.") };
  }
  if (type === "shell_call_output") {
    const { call_id, output } = checked(shellOutputItem, item, path);
    return { type, call_id, isError: false, text: output.map(shownOutput).join("\n\n") };
  }
  const { id, call_id, output } = checked(localShellOutputItem, item, path);
  const named = call_id ?? id;
  if (!named) throw missing([...path, "call_id"]);
  return { type, call_id: named, isError: false, text: output };
}

type ShellOutput = z.output<typeof shellOutputItem>["output"][number];

function shownOutput({ stdout, stderr, outcome }: ShellOutput): string {
  const end = outcome?.type === "timeout" ? "It timed out." : `Exit code: ${outcome?.exit_code ?? 0}`;
  return [stdout, stderr && `Errors:\n${stderr}`, end].filter(Boolean).join("\n");
}
