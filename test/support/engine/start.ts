import { join } from "node:path";
import { start } from "../../../deploy/local/start.ts";

/* `npm start` with a simulated engine: 50 tokens a second, 2,000 tokens unless the caller asks for fewer. */

process.exitCode = await start(process.argv.slice(2), {
  program: join(import.meta.dirname, "main.js"),
  backendOf: async () => ({ kind: "simulator", answerTokens: { min: 2_000, max: 2_000 } }),
});
process.exit();
