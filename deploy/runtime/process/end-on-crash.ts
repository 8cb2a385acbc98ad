import type { Logger } from "pino";

/** The facts about an error without its message, which may quote what a user sent. */
export type CrashReport = {
  /** The class of the error; the type of what was thrown where that is no error. */
  readonly error: string;
  /** The system's word for the error, such as `EMFILE`; absent where there is none. */
  readonly code?: string;
  /** The stack frames of the error, innermost first; empty where there are none. */
  readonly at: readonly string[];
};

/** Reports what was thrown, without its message. */
export function crashReport(thrown: unknown): CrashReport {
  if (!(thrown instanceof Error)) return { error: typeof thrown, at: [] };
  const { name, message, stack = "" } = thrown;
  // The message stands before the frames, and may have lines that look like them.
  const head = message === "" ? name : `${name}: ${message}`;
  const frames = stack.startsWith(head) ? stack.slice(head.length).split("\n") : [];
  const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
  return {
    error: thrown.constructor.name,
    ...(/^[A-Z][A-Z0-9_]*$/.test(code) && { code }),
    at: frames.map((frame) => frame.trim()).filter((frame) => frame.startsWith("at ")),
  };
}

/**
 * Has `end` called after an error that nobody caught: the process is not to be relied on then, and `end` shall have it
 * take nothing new, finish what runs, and leave the rest to its supervisor. The returned function says whether there
 * was one.
 */
export function endOnCrash(end: () => void, log: Logger): () => boolean {
  let crashed = false;
  // An unhandled rejection becomes one of these.
  process.on("uncaughtException", (thrown, origin) => {
    log.fatal({ ...crashReport(thrown), origin }, "an error was not caught; ending");
    if (!crashed) end();
    crashed = true;
  });
  return () => crashed;
}
