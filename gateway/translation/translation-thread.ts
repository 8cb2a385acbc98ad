import { parentPort } from "node:worker_threads";
import { ofThisThread } from "../../deploy/runtime/threads/grown-heap.ts";
import { replyTo, type TranslationTask } from "./translation-task.ts";

parentPort?.on("message", (task: TranslationTask) => {
  const reply = replyTo(task);
  const { end } = reply;
  const bytes = "translated" in end ? end.translated.bytes : undefined;
  // A view of part of a bigger buffer would take along, and lose, what is beside it.
  const own = bytes?.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength;
  parentPort?.postMessage({ ...reply, ...ofThisThread() }, own ? [bytes.buffer as ArrayBuffer] : []);
});
