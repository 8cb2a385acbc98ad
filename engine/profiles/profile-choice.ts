import type { OutputMarkers } from "../output-parser/markers.ts";
import { formOf } from "../tool-calls/forms.ts";
import { builtInProfiles, loadProfile, type ModelProfile, type NamedProfile } from "./profile.ts";

export type ModelFile = {
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
