import { unfitNode } from "./node-version.ts";

/*
 * `npm start`. No other module is imported before the version check: an old Node would fail on it with an obscure
 * error.
 */

const unfit = unfitNode(process.versions.node);
if (unfit === undefined) {
  const { start } = await import("./start.ts");
  process.exitCode = await start(process.argv.slice(2));
} else {
  console.error(`start: ${unfit}`);
  process.exitCode = 1;
}
process.exit();
