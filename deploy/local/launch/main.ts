import { launch } from "./launch.ts";

/* `svc launch`. */

process.exitCode = await launch(process.argv.slice(2));
process.exit();
