import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { ConfigError, parseConfig } from "../../deploy/runtime/config/load-config.ts";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import type { TextCalls } from "../conversation/history/calls-as-text.ts";
import { SYSTEM_PLACES } from "../conversation/history/model-history.ts";
import { RENDERER_NAMES } from "../conversation/renderers/renderers.ts";
import { type OutputMarkers, reasoningMarkers, textMarkers } from "../output-parser/markers.ts";
import { formOf, toolCallMarkers } from "../tool-calls/forms.ts";
import { mark } from "../tool-calls/tool-call-form.ts";

/** A profile describes a model family as data: a YAML file of this folder, or one that a configuration names. */

const templateKwargs = z.record(z.string().min(1), z.union([z.string(), z.number(), z.boolean()]));

const effort = z.strictObject({
  templateKwargs: templateKwargs.default({}).describe("The template variables that this effort adds to those of `on`."),
  reasoningEffort: z.string().min(1).optional().describe("The word that the template has for this effort."),
  budgetTokens: z
    .int()
    .min(1)
    .optional()
    .describe("Number of tokens of reasoning that this effort allows, unless the request says how many."),
});

const thinking = z.strictObject({
  default: z
    .enum(["on", "off", "always"])
    .describe(
      "Whether the model reasons for a request that does not say; as a rule the template's behaviour without variables.",
    ),
  on: templateKwargs.default({}).describe("The template variables that switch reasoning on."),
  off: templateKwargs
    .optional()
    .describe("The template variables that switch reasoning off; without them it cannot be switched off."),
  effort: z
    .strictObject({
      low: effort.describe("What the effort `low` does."),
      medium: effort.describe("What the effort `medium` does."),
      high: effort.describe("What the effort `high` does."),
    })
    .optional()
    .describe("What each effort does to the prompt and to the budget; without it, efforts change nothing."),
});

const gguf = z.strictObject({
  architectures: z
    .array(mark)
    .default([])
    .describe("The values of `general.architecture` of which a fitting file has one; an empty list fits any."),
  names: z
    .array(mark)
    .default([])
    .describe(
      "The texts of which `general.name` of a fitting file holds one, in upper or lower case; an empty list fits any.",
    ),
  template: z.array(mark).min(1).describe("The texts that the chat template of a fitting file holds, all of them."),
});

/** A field is absent where a template writes no white space beside a marker. */
export const profileSchema = z
  .strictObject({
    family: mark.describe("The name of the family, for people."),
    thinking: thinking.optional().describe("How reasoning is switched; without it, the model does not reason."),
    reasoning: reasoningMarkers.optional().describe("How the model marks its reasoning."),
    text: textMarkers
      .optional()
      .describe("How the model marks its visible text; without it, visible text is unmarked."),
    toolCall: toolCallMarkers
      .optional()
      .describe("How the model writes a tool call; without it, the model calls no tools."),
    toolsAsText: z
      .boolean()
      .default(false)
      .describe(
        "Whether the template has no tools, so that the node writes them into the system message, and calls and results into the texts of the turns; calls have the form `json` then, and an answer has one at most. The `llama` backend does so where a template shows no tools; every backend does where it reads no calls of the family.",
      ),
    renderer: z
      .enum(RENDERER_NAMES)
      .optional()
      .describe(
        "The node's own code that writes the family's prompts, as the checkpoint has code for them and no template; a configured `templatePath` goes before it, and llama-server renders by the template of its model file.",
      ),
    images: z
      .boolean()
      .default(false)
      .describe(
        "Whether the family's models take images. A node beside another engine tries it; the `llama` backend takes none.",
      ),
    systemMessages: z
      .enum(SYSTEM_PLACES)
      .default("anywhere")
      .describe(
        "Where the template takes a system message: anywhere, as the first message, or nowhere; one that it moves to another place is not taken there. The `llama` backend asks the template itself, and other backends ask their engine what it refuses.",
      ),
    alternates: z
      .boolean()
      .default(false)
      .describe("Whether user and model have to take turns in the template; found out as `systemMessages` is."),
    singleCalls: z
      .boolean()
      .default(false)
      .describe("Whether the template takes one call in a turn only; found out as `systemMessages` is."),
    callIds: z
      .enum(["any", "functions.name:index", "nine-characters"])
      .default("any")
      .describe("What the template demands of the ids of earlier calls."),
    historyArguments: z
      .enum(["value", "text"])
      .default("value")
      .describe("Whether the template takes the arguments of earlier calls as a value, or as JSON text."),
    historyReasoning: z
      .enum(["reasoning_content", "thinking"])
      .default("reasoning_content")
      .describe(
        "The field in which the template takes the reasoning of earlier turns. A template that takes it as `thinking` takes it, in a turn that calls, in the place of the visible text, so that both stand there.",
      ),
    gguf: gguf
      .optional()
      .describe(
        "The model files that the profile fits; of several that fit, the profile that says more counts. Without it, the profile is found by name only.",
      ),
  })
  .refine(({ toolsAsText, toolCall }) => !toolsAsText || toolCall?.form === "json", {
    path: ["toolCall"],
    error: "has to have the form json, as toolsAsText is true",
  });

export type ModelProfile = Readonly<z.infer<typeof profileSchema>>;
export type ThinkingEffort = z.infer<typeof effort>;

type NamedProfile = { readonly name: string; readonly profile: ModelProfile };

/** The folder of the built-in profiles. It is among the sources: the build copies no data files. */
const FOLDER = join(projectFolder(), "engine/profiles");

/** The name of a built-in profile, or the path of a YAML file, with a slash. Throws `ConfigError`. */
export function loadProfile(nameOrPath: string): ModelProfile {
  const builtIn = !nameOrPath.includes("/");
  const file = builtIn ? `${nameOrPath}.yaml` : nameOrPath;
  let text: string;
  try {
    text = readFileSync(builtIn ? join(FOLDER, file) : file, "utf8");
  } catch (cause) {
    throw new ConfigError(`profile: there is no model profile ${JSON.stringify(nameOrPath)}.`, { cause });
  }
  return parseConfig(profileSchema, text, file);
}

export function builtInProfiles(): readonly NamedProfile[] {
  return namesIn(FOLDER)
    .sort()
    .map((name) => ({ name, profile: loadProfile(name) }));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((file) => (file.endsWith(".yaml") ? [file.slice(0, -".yaml".length)] : []));
  } catch {
    return [];
  }
}

/** The profile whose form of calls needs nothing of a template. */
const GENERIC = "generic";

/** Returns a profile for a model whose template shows no tools, or whose calls cannot be read. */
export function withGenericCalls<Profile extends Pick<ModelProfile, "toolCall" | "toolsAsText">>(
  profile: Profile,
): Profile {
  const { toolCall, toolsAsText } = profile.toolsAsText ? profile : loadProfile(GENERIC);
  return { ...profile, toolCall, toolsAsText };
}

/** Returns the form in which tools and calls are written as text; undefined where the template writes them. */
export function textCallsOf({
  toolsAsText,
  toolCall,
}: Pick<ModelProfile, "toolCall" | "toolsAsText">): TextCalls | undefined {
  return toolsAsText && toolCall?.form === "json" ? toolCall : undefined;
}

type ModelFile = {
  readonly architecture: string;
  readonly name: string;
  readonly template: string;
};

/** The profile for unknown model files. Only those of its special tokens are used that the model has. */
const FALLBACK = "hermes-thinking";

/**
 * The profile with the most conditions among those whose conditions all hold, else one for ChatML with `fits` false.
 */
export function chooseProfile(
  file: ModelFile,
  profiles: readonly NamedProfile[] = builtInProfiles(),
): NamedProfile & { readonly fits: boolean } {
  let best: { readonly named: NamedProfile; readonly conditions: number } | undefined;
  for (const named of profiles) {
    const conditions = conditionsMet(named.profile.gguf, file);
    if (conditions > (best?.conditions ?? 0)) best = { named, conditions };
  }
  return best ? { ...best.named, fits: true } : { name: FALLBACK, profile: loadProfile(FALLBACK), fits: false };
}

function conditionsMet(gguf: ModelProfile["gguf"], { architecture, name, template }: ModelFile): number {
  if (gguf === undefined) return 0;
  const { architectures, names } = gguf;
  if (architectures.length > 0 && !architectures.includes(architecture)) return 0;
  if (names.length > 0 && !names.some((part) => name.toLowerCase().includes(part.toLowerCase()))) return 0;
  if (!gguf.template.every((part) => template.includes(part))) return 0;
  return gguf.template.length + Math.min(architectures.length, 1) + Math.min(names.length, 1);
}

/**
 * A marker is supported if each part is a token or in the template, which may build `<a|b>` from `<`, `a|b` and `>`.
 */
export function usableMarkers(
  { reasoning, toolCall, text }: Pick<ModelProfile, "reasoning" | "toolCall" | "text">,
  template: string,
  withoutTokens: (mark: string) => readonly string[],
): OutputMarkers {
  const isKnown = (mark: string) => withoutTokens(mark.trim()).every((part) => template.includes(part));
  const calls = toolCall && formOf(toolCall).usable(toolCall, { template, isKnown });
  return {
    ...(reasoning && isKnown(reasoning.open) && isKnown(reasoning.close) ? { reasoning } : {}),
    ...(calls ? { toolCall: calls } : {}),
    ...(text && [text.open, text.close].every(isKnown) ? { text } : {}),
  };
}
