import * as z from "zod";

/*
 * Hints of agents about a request, besides the meaning of its body. Any caller can write any of them, so they decide the
 * order among waiting requests only, and only towards later places: never a right, a limit or a charge.
 */

/** The contract's `priority` of a request, by who waits for it. Unhinted requests are `PERSON`: no hint is an advantage. */
export const PRIORITY = {
  /** A person waits for the answer. */
  PERSON: 0,
  /** A sub-agent, for which the agent of a person waits. */
  BLOCKING: -5,
  /** Titles, summaries, suggestions, background tasks: no person waits. */
  BACKGROUND: -50,
} as const;

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The values of Claude Code's `x-claude-1p-request-class`, then those of its `x-claude-code-request-class`. */
const CLAUDE_CODE_CLASSES: ReadonlyMap<string, number> = new Map([
  ["main", PRIORITY.PERSON],
  ["blocking-subagent", PRIORITY.BLOCKING],
  ["background-task", PRIORITY.BACKGROUND],
  ["summary-extraction", PRIORITY.BACKGROUND],
  ["followup-generation", PRIORITY.BACKGROUND],
  ["subagent", PRIORITY.BLOCKING],
  ["workflow", PRIORITY.BACKGROUND],
  ["auxiliary", PRIORITY.BACKGROUND],
  ["compaction", PRIORITY.PERSON],
  ["side_reply", PRIORITY.PERSON],
]);

/** The longest turn metadata that is read, in characters: Codex writes the state of each repository into it. */
const MAX_METADATA_LENGTH = 8_192;

/** What Codex says of a turn. Kinds beside a turn and its compaction are work ahead, or on its memory. */
const turnMetadata = z.object({
  request_kind: z.string().optional().catch(undefined),
  thread_source: z.string().optional().catch(undefined),
  subagent_kind: z.string().nullish().catch(undefined),
  parent_thread_id: z.string().nullish().catch(undefined),
});

/** Returns the priority that the headers of a request ask for. */
export function priorityOfHeaders(headers: Headers): number {
  const ofClass =
    CLAUDE_CODE_CLASSES.get(textOf(headers["x-claude-1p-request-class"])) ??
    CLAUDE_CODE_CLASSES.get(textOf(headers["x-claude-code-request-class"]));
  if (ofClass !== undefined) return ofClass;
  if (textOf(headers["x-claude-code-agent-type"])) return PRIORITY.BLOCKING;
  return priorityOfTurn(textOf(headers["x-codex-turn-metadata"]));
}

/** Returns the priority that Codex's turn metadata, JSON in a text, asks for. */
export function priorityOfTurn(metadata: string | undefined): number {
  if (!metadata || metadata.length > MAX_METADATA_LENGTH) return PRIORITY.PERSON;
  const { data: turn } = turnMetadata.safeParse(parsed(metadata));
  if (!turn) return PRIORITY.PERSON;
  const { request_kind: kind = "turn", thread_source: source = "user" } = turn;
  if ((kind !== "turn" && kind !== "compaction") || source === "memory_consolidation" || source === "thread_title")
    return PRIORITY.BACKGROUND;
  return source === "subagent" || turn.subagent_kind || turn.parent_thread_id ? PRIORITY.BLOCKING : PRIORITY.PERSON;
}

/** The most tools and characters in Claude Code's header of tool durations, as it writes it. */
const MAX_TOOLS = 32;
const MAX_DURATIONS_LENGTH = 4_096;

/**
 * Returns how long the tools ran whose results a request of Claude Code brings, in seconds, from
 * `x-claude-code-prev-tool-durations`: `Bash=759;Read=12`, in milliseconds. Names are the caller's, and are not read.
 */
export function toolSeconds(headers: Headers): readonly number[] {
  const text = textOf(headers["x-claude-code-prev-tool-durations"]);
  if (!text || text.length > MAX_DURATIONS_LENGTH) return [];
  return text
    .split(";", MAX_TOOLS)
    .flatMap((tool) => /=(\d{1,9})$/.exec(tool)?.[1] ?? [])
    .map((milliseconds) => Number(milliseconds) / 1_000);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function textOf(header: string | readonly string[] | undefined): string {
  return typeof header === "string" ? header.trim() : "";
}
