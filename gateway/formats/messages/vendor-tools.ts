import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { wrongType } from "../field-error.ts";

/*
 * Tools that the vendor of the format defines by type and name alone, and the caller runs. The vendor's models know
 * their schemas; here the model reads them as functions. Their calls and results are those of any tool.
 */

type Declared = {
  readonly description: string;
  readonly properties: Readonly<Record<string, object>>;
  readonly required: readonly string[];
};

type VendorTool = {
  /** The types of the tool begin with it; a date follows. */
  readonly type: RegExp;
  /** Returns what the model reads of the tool; `source` is the declaration, which may hold settings. */
  readonly declare: (source: JsonObject, version: number) => Declared;
};

const text = (description: string) => ({ type: "string", description });
const whole = (description: string) => ({ type: "integer", description });
const pair = (description: string, items = 2) => ({
  ...{ type: "array", items: { type: "integer" }, minItems: items, maxItems: items },
  description,
});
const commands = (...names: readonly string[]) => ({ type: "string", enum: names, description: "What to do." });

/** From this version on, inserted text has a field of its own, and no edit is undone. */
const SECOND_EDITOR = 20250429;

const EDITS = {
  file_text: text("For `create`: the content of the file."),
  old_str: text("For `str_replace`: the text to replace, which occurs exactly once, with its white space."),
  insert_line: whole("For `insert`: the line behind which the text goes; 0 is the beginning of the file."),
  view_range: pair("For `view` of a file: the first and the last line, from 1; -1 is the end of the file."),
};

const VENDOR_TOOLS: readonly VendorTool[] = [
  {
    type: /^bash_\d+$/,
    declare: () => ({
      description:
        "Runs a command in a bash shell and returns its output. The shell stays the same between calls: directory, variables and background processes remain.",
      properties: {
        command: text("The command. Left out only for a restart."),
        restart: { type: "boolean", description: "Whether to restart the shell instead." },
      },
      required: [],
    }),
  },
  {
    type: /^text_editor_\d+$/,
    declare: (_source, version) => {
      const isFirst = version < SECOND_EDITOR;
      const undo = isFirst ? "; `undo_edit` takes the last edit of a file back" : "";
      return {
        description: `Views, creates and edits text files. \`view\` shows a file with line numbers, or the entries of a folder; \`create\` writes a new file; \`str_replace\` replaces one text; \`insert\` adds text behind a line${undo}.`,
        properties: {
          command: commands("view", "create", "str_replace", "insert", ...(isFirst ? ["undo_edit"] : [])),
          path: text("The path of the file or folder."),
          ...EDITS,
          new_str: text(`For \`str_replace\`${isFirst ? " and `insert`" : ""}: the new text.`),
          ...(!isFirst && { insert_text: text("For `insert`: the text.") }),
        },
        required: ["command", "path"],
      };
    },
  },
  {
    type: /^memory_\d+$/,
    declare: () => ({
      description:
        "Reads and writes files in the folder /memories, which remains between conversations. Look there before a task for what earlier ones have found out, and note there what later ones need.",
      properties: {
        command: commands("view", "create", "str_replace", "insert", "delete", "rename"),
        path: text("The path of the file or folder, within /memories; for all commands but `rename`."),
        ...EDITS,
        new_str: text("For `str_replace`: the new text."),
        insert_text: text("For `insert`: the text."),
        old_path: text("For `rename`: the present path."),
        new_path: text("For `rename`: the new path."),
      },
      required: ["command"],
    }),
  },
  {
    type: /^computer_\d+$/,
    declare: ({ display_width_px: width, display_height_px: height, enable_zoom: zooms }) => ({
      description: `Operates a computer by mouse and keyboard, and shows its screen${typeof width === "number" && typeof height === "number" ? ` of ${width} x ${height} pixels` : ""}. Take a screenshot to see what an action did, and click at the middle of things.`,
      properties: {
        action: {
          ...{ type: "string", description: "What to do." },
          enum: [
            ...["key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up"],
            ...["left_click", "left_click_drag", "right_click", "middle_click", "double_click", "triple_click"],
            ...["scroll", "wait", "screenshot", ...(zooms === true ? ["zoom"] : [])],
          ],
        },
        coordinate: pair(
          "The place in pixels, from the left and from the top: of a click, a scroll, the end of a move.",
        ),
        start_coordinate: pair("For `left_click_drag`: where the drag begins."),
        text: text("For `type` the text, for `key` and `hold_key` the keys (`ctrl+s`), for clicks keys that are held."),
        duration: { type: "number", description: "For `hold_key` and `wait`: the time in seconds." },
        scroll_direction: { ...commands("up", "down", "left", "right"), description: "For `scroll`: the direction." },
        scroll_amount: whole("For `scroll`: how far, in steps of the wheel."),
        ...(zooms === true && { region: pair("For `zoom`: left, top, right and bottom of the part to show.", 4) }),
      },
      required: ["action"],
    }),
  },
];

/** The vendor's tools that it runs itself, and sets of tools, by the names that a refusal shows. */
const HOSTED_TOOLS = [
  ...["web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset", "advisor"],
  ...["computer_toolset", "browser_toolset"],
];

/**
 * Returns a declaration as one with a schema of its own: a tool that a vendor defines and callers run becomes a function
 * with its public schema. Throws `ApiError` for tools that only the vendor hosts.
 */
export function asCustomTool(source: unknown, path: FieldPath): unknown {
  if (!isJsonObject(source)) return source;
  const type = source.type ?? "custom";
  if (typeof type !== "string") throw wrongType([...path, "type"], "a string", type);
  if (type === "custom" || (source.input_schema ?? undefined) !== undefined) return source;
  const known = VENDOR_TOOLS.find((tool) => tool.type.test(type));
  if (!known) throw hosted(type, path);
  const { description, ...schema } = known.declare(source, Number(/\d+$/.exec(type)?.[0]));
  const input_schema = { type: "object", ...schema, additionalProperties: false };
  return { ...source, type: "custom", description, input_schema };
}

function hosted(type: string, path: FieldPath): ApiError {
  const kind = HOSTED_TOOLS.find((name) => type.startsWith(name));
  const named = kind ? `tools of the type '${kind}' are` : "a tool of this type is";
  const explanation = `${named} not offered here, only tools that the caller runs.`;
  const schemaPath = [...path, "input_schema"];
  return new ApiError("missing_required_parameter", `${schemaPath.join(".")}: Field required; ${explanation}`, {
    path: schemaPath,
    detail: "vendor_tool",
  });
}
