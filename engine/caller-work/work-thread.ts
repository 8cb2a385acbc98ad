import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { replyTo, type WorkMessage } from "./work-reply.ts";

/** How far these threads stand back where processors are short, as `nice` has it: behind those that make tokens. */
const NICENESS = 5;

standBack();
parentPort?.on("message", (message: WorkMessage) => {
  parentPort?.postMessage(replyTo(message));
});

/** Linux has a priority for each thread, and names the one that asks; elsewhere the thread stays as it is. */
function standBack(): void {
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICENESS);
  } catch {
    // What follows is right without it, too.
  }
}
