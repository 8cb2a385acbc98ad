import { runNode } from "./run-node.ts";

await runNode(async () => {
  const { engineConfigSchema: schema, createBackend } = await import("./config.ts");
  return { schema, createBackend };
});
