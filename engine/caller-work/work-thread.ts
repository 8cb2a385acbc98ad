import { parentPort } from "node:worker_threads";
import { ofThisThread } from "../../deploy/runtime/threads/grown-heap.ts";
import { replyTo, type WorkMessage } from "./work-reply.ts";

parentPort?.on("message", (message: WorkMessage) => {
  parentPort?.postMessage({ ...replyTo(message), ...ofThisThread() });
});
