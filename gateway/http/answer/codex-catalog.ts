import { Capability } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { CodexModel } from "../../reference/models.ts";
import type { DescribedModel } from "../../upstream/cluster/described-model.ts";

/** In tokens. */
const MAX_TOOL_OUTPUT = 10_000;

/** Short instructions in place of those that Codex has for names that it does not know, which are 17 times as long. */
const INSTRUCTIONS = [
  "You are a coding agent in a terminal. You work on the user's machine, in their working directory, with the tools that you have. Go on until the task is done, then say in a few sentences what you changed, how you checked it and what is left.",
  [
    "- Look before you change: read the files that matter, and follow the ways of the repository. A file AGENTS.md holds for its folder and all below it; a deeper one wins, and the user's own words win over both.",
    "- Search with `rg` where it is there. Change files with the patch tool where you have it, in small patches with enough lines around; run commands for everything else.",
    "- Mend the cause with the smallest change that does it. Leave other code alone, and the user's changes too: never commit, push, delete or undo their work unless they ask.",
    "- Check your work: run the tests, the build or the program, as far as they are there, and mend what you broke.",
    "- When a command fails, read its output before you try again. Ask only where you cannot go on without an answer.",
  ].join("\n"),
].join("\n\n");

/** The model that the catalog describes. */
type CodexSource = {
  readonly name: string;
  readonly displayName: string;
  /** Most tokens of prompt and answer together. */
  readonly window: number;
  readonly described: DescribedModel | undefined;
};

/** Returns a model as Codex reads it from its `model_catalog_json`; `priority` is its place in the picker. */
export function codexModel({ name, displayName, window, described }: CodexSource, priority: number): CodexModel {
  return {
    slug: name,
    display_name: displayName,
    base_instructions: INSTRUCTIONS,
    context_window: window,
    truncation_policy: { mode: "tokens", limit: Math.min(MAX_TOOL_OUTPUT, Math.floor(window / 8)) },
    ...reasoningOf(described?.capabilities ?? new Set()),
    default_reasoning_summary: "auto",
    support_verbosity: false,
    input_modalities: described?.acceptsImages ? ["text", "image"] : ["text"],
    shell_type: "unified_exec",
    apply_patch_tool_type: "freeform",
    supports_search_tool: true,
    experimental_supported_tools: [],
    visibility: "list",
    supported_in_api: true,
    priority,
  };
}

/** Codex shows the first level as the default where none is named, so `none` is the last one. */
function reasoningOf(
  capabilities: ReadonlySet<Capability>,
): Pick<CodexModel, "supported_reasoning_levels" | "default_reasoning_level"> {
  if (!capabilities.has(Capability.REASONING)) return { supported_reasoning_levels: [] };
  const levels = [
    { effort: "low", description: "Little reasoning" },
    { effort: "medium", description: "Some reasoning" },
    { effort: "high", description: "Much reasoning" },
  ];
  const none = { effort: "none", description: "No reasoning" };
  const supported = capabilities.has(Capability.REASONING_OFF) ? [...levels, none] : levels;
  return { supported_reasoning_levels: supported, default_reasoning_level: "medium" };
}
