import { parentPort } from "node:worker_threads";
import { ofThisThread } from "../../deploy/runtime/threads/work-threads.ts";
import { replyTo, type ShapeTask, shapeReplyTo, type TranslationTask } from "./translation-task.ts";

parentPort?.on("message", (task: TranslationTask | ShapeTask) => {
  const reply = "tools" in task ? shapeReplyTo(task) : replyTo(task);
  const { end } = reply;
  const bytes = "translated" in end ? end.translated.bytes : undefined;
  // Transferring a view of part of a larger buffer would detach the whole buffer.
  const own = bytes?.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength;
  parentPort?.postMessage({ ...reply, ...ofThisThread() }, own ? [bytes.buffer as ArrayBuffer] : []);
});
