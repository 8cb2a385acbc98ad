import type { OutputMarkers } from "../output-parser/markers.ts";
import { formOf } from "../tool-calls/forms.ts";
import { builtInProfiles, loadProfile, type ModelProfile, type NamedProfile } from "./profile.ts";

/*
 * Matches a profile to a model file by the file's metadata, and selects the markers that the model supports.
 */

/** The metadata of a GGUF file. */
export type ModelFile = {
  readonly architecture: string;
  /** The value of `general.name`; "" if absent. */
  readonly name: string;
  /** The chat template, Jinja source. */
  readonly template: string;
};

/** The profile for unknown model files. Only those of its special tokens are used that the model has. */
const FALLBACK = "hermes-thinking";

/**
 * Returns the profile of a model file: the one with the most conditions among those whose conditions all hold, else a
 * profile for ChatML models with `fits` false. `profiles` are the built-in ones by default.
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

/** Returns the number of conditions; 0 if one of them does not hold. */
function conditionsMet(gguf: ModelProfile["gguf"], { architecture, name, template }: ModelFile): number {
  if (gguf === undefined) return 0;
  const { architectures, names } = gguf;
  if (architectures.length > 0 && !architectures.includes(architecture)) return 0;
  if (names.length > 0 && !names.some((part) => name.toLowerCase().includes(part.toLowerCase()))) return 0;
  if (!gguf.template.every((part) => template.includes(part))) return 0;
  return gguf.template.length + Math.min(architectures.length, 1) + Math.min(names.length, 1);
}

/**
 * Returns the markers of a profile that a model supports. A marker is supported if every part of it is a token or
 * occurs in the template: a template may build `<a|b>` from `<`, a token `a|b` and `>`. `withoutTokens` returns the
 * rest of a marker after its tokens are removed.
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
