import * as z from "zod";
import { unchecked } from "../checked.ts";
import { closed, flag, named, optional, parameters, tag } from "../fields.ts";
import { allowedCallers, toolName } from "../tools.ts";
import { applyPatchTool, localShellTool, shellTool, VENDOR_TOOL_NAMES } from "./vendor-tools.ts";

/* The tools of `POST /v1/responses`, the items that hold tools, and the choice among them. */

const deferLoading = flag.describe(
  "Whether the model reads the tool only where the output of a `tool_search` holds it. Without such a tool it has no effect. Default: `false`.",
);

export const functionTool = named("FunctionTool", "A function that the model may call and the caller runs.", {
  type: tag("function"),
  name: toolName.describe("The name of the function, unique where it is declared."),
  description: z.string().nullish().describe("What the function does, for the model to read."),
  parameters,
  strict: optional(
    z.boolean(),
    "Whether the arguments are held to the whole schema; see *Structured output*. Default: where the schema closes every object, requires every property and has common keywords alone.",
  ),
  allowed_callers: allowedCallers,
  defer_loading: deferLoading,
});

export const customTool = named(
  "CustomTool",
  "A tool that takes free text, which the model writes and the caller runs.",
  {
    type: tag("custom"),
    name: toolName.describe("The name of the tool, unique where it is declared."),
    description: z.string().nullish().describe("What the tool does, for the model to read."),
    format: z
      .discriminatedUnion("type", [
        named("CustomTextFormat", "Any text.", { type: tag("text") }),
        named("CustomGrammarFormat", "Text that follows a grammar, which the model reads with the description.", {
          type: tag("grammar"),
          syntax: z
            .enum(["lark", "regex"])
            .describe("What the grammar is. Engines hold the text to a `regex` as they do to a `pattern` of a schema."),
          definition: z.string().describe("The grammar, or the expression of the whole text."),
        }),
      ])
      .nullish()
      .describe("The form of the text. Default: any text."),
    strict: optional(
      z.boolean(),
      "Whether a grammar that the engine cannot hold the text to is refused, as `lark` always is. Default: it is then a hint to the model.",
    ),
    allowed_callers: allowedCallers,
    defer_loading: deferLoading,
  },
);

export const namespaceTool = named(
  "NamespaceTool",
  "A group of the caller's own tools. The model sees one joined name; calls have name and namespace apart.",
  {
    type: tag("namespace"),
    name: toolName.describe("The name of the group."),
    description: z.string().nullish().describe("What the tools are for; repeated in the reply."),
    tools: z
      .array(unchecked(z.discriminatedUnion("type", [functionTool, customTool])), "an array of tools")
      .nullish()
      .describe("The tools of the group."),
  },
);

const CLIENT_ONLY = "Only 'client' is supported: no tools are searched here.";

export const searchTool = named(
  "ToolSearchTool",
  "The caller's own search of tools. The model reads the tools that it finds in its output, and can call them from there on.",
  {
    type: tag("tool_search"),
    execution: tag("client", CLIENT_ONLY),
    description: z.string().nullish().describe("What can be found, for the model to read."),
    parameters,
  },
);

const execution = z.literal("client", CLIENT_ONLY).nullish().describe("`client`, which may be left out.");

const vendorTools = [shellTool, localShellTool, applyPatchTool] as const;

/** A tool that the vendor defines and the caller runs. */
export const vendorTool = z.discriminatedUnion("type", vendorTools);

export const callerTools = z.array(
  unchecked(z.discriminatedUnion("type", [functionTool, customTool, namespaceTool, searchTool, ...vendorTools])),
  "an array of tools",
);

export const toolsItem = named(
  "AdditionalTools",
  "Further tools, which the model reads at this place; those in front of all but system text are tools like those of `tools`. One replaces an earlier tool of its name.",
  { type: tag("additional_tools"), tools: callerTools.describe("The tools.") },
);

export const searchCallItem = named("InputToolSearchCall", "A call of `tool_search` in an earlier answer.", {
  type: tag("tool_search_call"),
  call_id: z.string().min(1).describe("The id of the call."),
  execution,
  arguments: z.unknown().describe("The arguments: an object, or its text."),
});

export const searchOutputItem = named("ToolSearchOutput", "The result of a call of `tool_search`.", {
  type: tag("tool_search_output"),
  call_id: z.string().min(1).describe("The id of the call, which stands before."),
  execution,
  tools: callerTools.describe("The tools that were found. One replaces an earlier tool of its name."),
});

const choiceOf = <const Type extends "function" | "custom">(type: Type) => ({
  type: tag(type),
  name: z.string().describe("The name of such a tool among those of the request."),
  namespace: z.string().nullish().describe("The namespace of the tool, where it was declared in one."),
});

const functionChoice = closed("FunctionChoice", "One function by its name.", choiceOf("function"));

const customChoice = closed("CustomChoice", "One `custom` tool by its name.", choiceOf("custom"));

const vendorChoiceFields = { type: z.enum(VENDOR_TOOL_NAMES).describe("The tool.") };

const vendorChoice = closed("VendorToolChoice", "One of the tools that a vendor defines.", vendorChoiceFields);

export const allowedTool = z.discriminatedUnion("type", [
  named("AllowedFunction", "One function by its name.", choiceOf("function")),
  named("AllowedCustomTool", "One `custom` tool by its name.", choiceOf("custom")),
  named("AllowedVendorTool", "One of the tools that a vendor defines.", vendorChoiceFields),
]);

const allowedChoice = closed("AllowedTools", "Some of the tools by their names.", {
  type: tag("allowed_tools"),
  mode: z.enum(["auto", "required"]).describe("Whether the model may call one of them, or must."),
  tools: z.array(unchecked(allowedTool), "an array of tools").min(1).describe("The tools."),
});
export const toolChoiceSchema = z
  .union(
    [z.enum(["none", "auto", "required"]), functionChoice, customChoice, vendorChoice, allowedChoice],
    "a string or an object",
  )
  .nullish();
