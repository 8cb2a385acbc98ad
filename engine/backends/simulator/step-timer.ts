import { createInterface } from "node:readline";

/*
 * The program of a step process: of every line `<id> <ms>` it gives the id back so many milliseconds later. It ends
 * when nobody writes to it any more; a Ctrl-C is the node's to handle.
 */

process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
createInterface({ input: process.stdin }).on("line", (line) => {
  const [id, ms] = line.split(" ");
  setTimeout(() => process.stdout.write(`${id}\n`), Number(ms));
});
