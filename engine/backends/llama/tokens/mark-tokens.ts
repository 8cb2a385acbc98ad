import type { Token } from "node-llama-cpp";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** The tokens of the marks: their text is wanted, although the library hides that of control tokens. */
export function markTokens({ reasoning, toolCall }: OutputMarkers, vocabulary: Vocabulary): ReadonlySet<Token> {
  const marks = [reasoning, toolCall].flatMap((part) => Object.values(part ?? {}));
  return new Set(
    marks.flatMap((mark) =>
      typeof mark !== "string"
        ? []
        : vocabulary.controlTokens.occurrences(mark).flatMap(({ token }) => vocabulary.markerToken(token.text) ?? []),
    ),
  );
}

/** What is left of a mark when its tokens are taken out. */
export function withoutTokens(mark: string, { controlTokens }: Vocabulary): readonly string[] {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of controlTokens.occurrences(mark)) {
    if (start > from) parts.push(mark.slice(from, start));
    from = Math.max(from, end);
  }
  if (from < mark.length) parts.push(mark.slice(from));
  return parts;
}
