import { start } from "./start.ts";

/* `npm start`. */

process.exitCode = await start(process.argv.slice(2));
process.exit();
