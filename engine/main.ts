import { createBackend, engineConfigSchema } from "./config.ts";
import { runNode } from "./run-node.ts";

await runNode(engineConfigSchema, createBackend);
