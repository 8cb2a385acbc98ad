import { createInterface } from "node:readline";

/*
 * The program of a step process: echoes the id of every line `<id> <ms>` after that many milliseconds. It ends when its
 * input closes; the node handles Ctrl-C.
 */

process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
createInterface({ input: process.stdin }).on("line", (line) => {
  const [id, ms] = line.split(" ");
  setTimeout(() => process.stdout.write(`${id}\n`), Number(ms));
});
