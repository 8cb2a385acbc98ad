import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { playTranscript, readTranscript, type Script } from "../engine/scripted-backend.ts";
import { answerOf } from "./answer-of.ts";

const FOLDER = join(import.meta.dirname, "../../golden/transcripts");

export const TRANSCRIPTS: readonly string[] = readdirSync(FOLDER);

/** Those without a cut or broken call, which a reply of messages shows as text. */
export const TRANSCRIPTS_OF_WHOLE_CALLS: readonly string[] = TRANSCRIPTS.filter((name) =>
  answerOf(transcriptEvents(name)).blocks.every(({ kind, complete }) => kind !== "toolCall" || complete),
);

/** Returns the script that plays this answer for every request. Throws when there is none. */
export function transcript(name: string): Script {
  return playTranscript(transcriptEvents(name));
}

export function transcriptEvents(name: string): readonly Event[] {
  return readTranscript(join(FOLDER, name, "events.jsonl"));
}
