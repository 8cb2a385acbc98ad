import * as z from "zod";
import { named, tag } from "../formats/fields.ts";

const support = z.object({ supported: z.boolean().describe("Whether the model can.") });

const can = (what: string) => support.describe(what);

const capabilities = named("ModelCapabilities", "What a model can do on every node that serves it.", {
  batch: can("Batches of requests: never."),
  citations: can("Citations: never."),
  code_execution: can("Running code: never."),
  compaction: support
    .extend({ summarize: can("`compaction.type: summarize`: always.") })
    .describe("Summaries of conversations that `compaction` asks for."),
  context_management: support
    .extend({
      clear_thinking_20251015: can("Never."),
      clear_tool_uses_20250919: can("Never."),
      compact_20260112: can("Edits with `pause_after_compaction`: always; others are ignored."),
    })
    .describe("The edits of `context_management`."),
  effort: support
    .extend({
      low: can("Reasoning with little effort."),
      medium: can("Reasoning with some effort."),
      high: can("Reasoning with much effort."),
      xhigh: can("As `high`."),
      max: can("As `high`."),
    })
    .describe("Levels of effort in reasoning."),
  image_input: can("Images in prompts, on some node."),
  pdf_input: can("PDF in prompts: never."),
  server_tools: support
    .extend({ code_execution: can("Never."), web_search: can("Never.") })
    .describe("Tools that run here: never."),
  structured_outputs: can("Answers that are held to a JSON Schema."),
  thinking: support
    .extend({
      types: z
        .object({
          adaptive: can("Reasoning as much as it takes."),
          between_tools: can("As `adaptive`."),
          disabled: can("Answering without reasoning."),
          enabled: can("Reasoning within a budget."),
        })
        .describe("The values of `thinking.type`."),
    })
    .describe("Reasoning before the answer."),
});

export const model = named("Model", "A model that the key may use.", {
  id: z.string().describe("The id of the model, or a further name of it."),
  object: tag("model"),
  created: z.int().describe("A constant time, in seconds since the epoch."),
  owned_by: z.string().describe("Whose model it is: `svc`."),
  type: tag("model"),
  display_name: z.string().describe("The name of the model for people; a further name stands behind it in brackets."),
  description: z.string().describe("The window and abilities of the model in words, as pickers of agents show them."),
  created_at: z.string().describe("The same time as `created`, as RFC 3339."),
  context_length: z
    .int()
    .describe(
      "The most tokens that prompt and answer may have together, on the node that has the fewest; the last known value while no node is up.",
    ),
  context_window: z.int().describe("Another name of `context_length`."),
  max_model_len: z.int().describe("Another name of `context_length`."),
  max_input_tokens: z.int().describe("Another name of `context_length`: what a prompt takes, its answer cannot have."),
  max_tokens: z.int().describe("The most tokens that an answer may have, by the model and by the key."),
  capabilities: capabilities.nullable().describe("What the model can do; null until a node was there to say it."),
  lifecycle: tag("active"),
  line: z.null().describe("Always null."),
  deprecated_at: z.null().describe("Always null."),
  retires_at: z.null().describe("Always null."),
});

const codexModel = named("CodexModel", "A model as the catalog of Codex 0.171 has it.", {
  slug: z.string().describe("The id of the model, or a further name of it."),
  display_name: z.string().describe("The name of the model for people."),
  base_instructions: z.string().describe("The instructions for the model, in words of this service."),
  context_window: z.int().describe("As `context_length`."),
  truncation_policy: z
    .object({ mode: tag("tokens"), limit: z.int().describe("The most tokens of one output of a tool.") })
    .describe("How long outputs of tools may be: 10,000 tokens, less in small windows."),
  supported_reasoning_levels: z
    .array(
      z.object({
        effort: z.string().describe("The effort."),
        description: z.string().describe("The effort in words."),
      }),
    )
    .describe("The efforts to choose from; empty where the model does not reason."),
  default_reasoning_level: tag("medium")
    .optional()
    .describe("The effort of a request that names none; absent where the model does not reason."),
  default_reasoning_summary: tag("auto"),
  support_verbosity: z.literal(false).describe("Always `false`."),
  input_modalities: z.array(z.enum(["text", "image"])).describe("What prompts may hold."),
  shell_type: tag("unified_exec"),
  apply_patch_tool_type: tag("freeform"),
  supports_search_tool: z.literal(true).describe("Always `true`: tools of MCP servers may come later."),
  experimental_supported_tools: z.array(z.string()).describe("Always empty."),
  visibility: tag("list"),
  supported_in_api: z.literal(true).describe("Always `true`."),
  priority: z.int().describe("The place in the picker, from 0."),
});

export type CodexModel = z.infer<typeof codexModel>;

export const modelList = named("ModelList", "The models that the key may use.", {
  object: tag("list"),
  data: z.array(model).describe("The models, in an order that stays the same."),
  has_more: z.boolean().describe("Always `false`: the list is whole."),
  first_id: z.string().nullable().describe("The id of the first model; null where there is none."),
  last_id: z.string().nullable().describe("The id of the last model; null where there is none."),
  models: z
    .array(codexModel)
    .optional()
    .describe("The same models as the catalog of Codex (`model_catalog_json`), where the query has `client_version`."),
});
