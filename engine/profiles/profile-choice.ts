import type { OutputMarkers } from "../output-parser/markers.ts";
import { formOf } from "../tool-calls/forms.ts";
import { builtInProfiles, loadProfile, type ModelProfile, type NamedProfile } from "./profile.ts";

/*
 * Fits a profile to a model file: which one it is, by what the file says of itself, and which of its marks the model
 * knows.
 */

/** What a GGUF file says of itself. */
export type ModelFile = {
  /** The value of `general.architecture`. */
  readonly architecture: string;
  /** The value of `general.name`; "" where there is none. */
  readonly name: string;
  /** The chat template, Jinja source. */
  readonly template: string;
};

/**
 * The name of the profile for files of which nothing is known. Of its marks only those are used that the model knows.
 */
const FALLBACK = "hermes-thinking";

/**
 * Returns the profile of a model file: of those whose conditions all hold the one that has most of them, else one for
 * ChatML models, which then does not fit (`fits`). `profiles` are those that this service brings, by default.
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

/** Returns how many conditions there are; 0 where one of them does not hold. */
function conditionsMet(gguf: ModelProfile["gguf"], { architecture, name, template }: ModelFile): number {
  if (gguf === undefined) return 0;
  const { architectures, names } = gguf;
  if (architectures.length > 0 && !architectures.includes(architecture)) return 0;
  if (names.length > 0 && !names.some((part) => name.toLowerCase().includes(part.toLowerCase()))) return 0;
  if (!gguf.template.every((part) => template.includes(part))) return 0;
  return gguf.template.length + Math.min(architectures.length, 1) + Math.min(names.length, 1);
}

/**
 * Returns the markers of a profile that a model can know. A mark is known where every part of it is a token of its own
 * or stands in the template: `<a|b>` may be put together there of `<`, a token `a|b` and `>`. `withoutTokens` gives
 * what is left of a mark when its tokens are taken out.
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
