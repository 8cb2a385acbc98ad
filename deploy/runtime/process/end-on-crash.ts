import type { Logger } from "pino";

/** An error without its message, which may quote text of a user. */
export type CrashReport = {
  readonly error: string;
  readonly code?: string;
  readonly at: readonly string[];
};

export function crashReport(thrown: unknown): CrashReport {
  if (!(thrown instanceof Error)) return { error: typeof thrown, at: [] };
  const { name, message, stack = "" } = thrown;
  // The message precedes the frames, and may have lines that look like them.
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
 * Calls `end` after an uncaught error: the process is unreliable then, and `end` should stop accepting work, complete
 * running work, and exit, so that the supervisor restarts it. The returned function returns whether there was an
 * uncaught error.
 */
export function endOnCrash(end: () => void, log: Logger): () => boolean {
  let crashed = false;
  // Unhandled rejections are raised as this event.
  process.on("uncaughtException", (thrown, origin) => {
    log.fatal({ ...crashReport(thrown), origin }, "uncaught error; ending");
    if (!crashed) end();
    crashed = true;
  });
  return () => crashed;
}
