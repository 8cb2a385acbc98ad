import { parentPort } from "node:worker_threads";
import type { CrashReport } from "../../../deploy/runtime/process/end-on-crash.ts";
import { ofThisThread, type ThreadReply } from "../../../deploy/runtime/threads/work-threads.ts";
import { replyTo, type WorkMessage } from "../../../engine/caller-work/work-kinds.ts";
import { type TranslationTask, replyTo as translationOf } from "../../../gateway/translation/translation-task.ts";
import { threadCpuMs } from "../../support/thread-cpu.ts";

/** The work of a worker thread: an engine node's, or the translation of a body in a gateway. */
export type ThreadWork = WorkMessage | TranslationTask;

/** The reply of a measured thread: the CPU time of the work in milliseconds, and the report of a fault in it. */
export type Measurement = ThreadReply & { readonly ms: number; readonly fault: CrashReport | undefined };

/* Does the work of a node's threads, and replies with its duration instead of the result. */
parentPort?.on("message", (work: ThreadWork) => {
  const beganMs = threadCpuMs();
  const reply = "kind" in work ? replyTo(work) : translationOf(work).end;
  const ms = threadCpuMs() - beganMs;
  const fault = "fault" in reply ? reply.fault : undefined;
  parentPort?.postMessage({ ms, fault, ...ofThisThread() } satisfies Measurement);
});
