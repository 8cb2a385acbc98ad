import { unfitNode } from "./node-version.ts";

/*
 * `npm start`. Nothing else is imported before the version is known: an old Node would fail on it in words that help
 * nobody.
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
