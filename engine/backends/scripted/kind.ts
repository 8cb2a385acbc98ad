import * as z from "zod";
import type { BackendKind } from "../backend-kind.ts";
import { agentScript } from "./agent-script.ts";
import { fixedSentence, playTranscript, readTranscript, ScriptedBackend } from "./scripted.ts";

const schema = z.strictObject({
  kind: z
    .literal("scripted")
    .describe("The backend plays a script instead of a model, for tests and for trying agents."),
  transcript: z
    .string()
    .min(1)
    .optional()
    .describe("The path of a file of JSON lines, one canonical event each, that is played for every request."),
  script: z
    .enum(["sentence", "agent"])
    .default("sentence")
    .describe("The script without a transcript: a fixed sentence, or a tool turn and a final turn for coding agents."),
  slots: z.int().min(1).default(64).describe("The number of generations that run at once."),
});

/** The backend kind that plays a script in place of a model: `kind: scripted` in the configuration. */
export const scripted: BackendKind<typeof schema> = {
  schema,
  create({ script, transcript, slots }, node) {
    const builtIn = script === "agent" ? agentScript : fixedSentence;
    const played = transcript === undefined ? builtIn : playTranscript(readTranscript(transcript));
    return new ScriptedBackend({ ...node, slots, script: played });
  },
};
