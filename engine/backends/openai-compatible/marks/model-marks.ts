import type { OutputMarkers } from "../../../output-parser/markers.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import type { EngineDialect } from "../engines/engine-dialect.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { asFields, asList, asText, parseFields } from "../http/json-fields.ts";
import { SpelledMarks } from "./spelled-marks.ts";

const TIMEOUT_MS = 10_000;

/** The spellings of a model's special tokens, with a warning for operators about their source. */
export type ModelMarks = { readonly marks: SpelledMarks; readonly note: string | undefined };

/** Returns the spellings of the special tokens in a `tokenizer.json`; undefined if the text is not one. */
export function spellingsInFile(text: string): readonly string[] | undefined {
  const { added_tokens: tokens } = parseFields(text) ?? {};
  if (!Array.isArray(tokens)) return undefined;
  return asList(tokens).flatMap((token) => asText(asFields(token).content) || []);
}

/**
 * Resolves to the spellings that callers must not write: those of the operator's file, or those that the engine
 * reports. An engine that reports none leaves the profile's, with a warning.
 */
export async function readModelMarks(
  http: EngineHttp,
  dialect: EngineDialect,
  profile: ModelProfile,
  spellings: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<ModelMarks> {
  const found = spellings ?? (await reportedByEngine(http, dialect, signal));
  if (found) return { marks: new SpelledMarks(found), note: undefined };
  const remedy =
    dialect.paths.specialTokens === undefined ? "" : "Start it with --enable-tokenizer-info-endpoint, or set";
  const note =
    "backend: the engine does not report the special tokens of its model, so that callers can write them. " +
    `${remedy || "Set"} tokenizerFile.`;
  return { marks: new SpelledMarks(spellingsOf(profile)), note };
}

async function reportedByEngine(
  http: EngineHttp,
  { paths }: EngineDialect,
  signal: AbortSignal,
): Promise<readonly string[] | undefined> {
  if (paths.specialTokens === undefined) return undefined;
  const { status, text } = await http.fetch({ path: paths.specialTokens, timeoutMs: TIMEOUT_MS }, signal);
  const { added_tokens_decoder: tokens } = (status === 200 ? parseFields(text) : undefined) ?? {};
  const spellings = Object.values(asFields(tokens)).flatMap(
    (token) => asText(token) || asText(asFields(token).content) || [],
  );
  return spellings.length > 0 ? spellings : undefined;
}

/** Returns the texts of marks, without the white space around them. */
export function spellingsOf({ reasoning, toolCall, text }: OutputMarkers): readonly string[] {
  const all = [
    reasoning?.open,
    reasoning?.close,
    ...Object.values(toolCall ?? {}),
    ...Object.values(text ?? {}).flat(),
  ];
  const marks = all.filter((mark) => typeof mark === "string").map((mark) => mark.trim());
  return [...new Set(marks.filter((mark) => /^[<[].*[>\]]$/.test(mark)))];
}
