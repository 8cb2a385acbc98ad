import { parentPort } from "node:worker_threads";
import { ofThisThread } from "../../deploy/runtime/threads/work-threads.ts";
import { replyTo, type WorkMessage } from "./work-kinds.ts";

parentPort?.on("message", (message: WorkMessage) => {
  parentPort?.postMessage({ ...replyTo(message), ...ofThisThread() });
});
