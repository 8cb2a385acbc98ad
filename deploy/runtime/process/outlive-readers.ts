/**
 * Lets this process go on when whoever read its standard output or standard error has gone. Without it the first write
 * to a closed pipe is an error that nobody catches.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}
