import { join } from "node:path";
import { start } from "../../deploy/local/start.ts";

/* `npm start` with engines that play the task; SVC_AGENTS_ENGINE holds the settings of engine.ts. */

process.exitCode = await start(process.argv.slice(2), {
  program: join(import.meta.dirname, "engine.js"),
  backendOf: async () => JSON.parse(process.env.SVC_AGENTS_ENGINE ?? "{}"),
});
process.exit();
