import type { AddressInfo } from "node:net";
import { errnoOf } from "../files/errno.ts";

/**
 * Why a process could not start: a line where an operator can mend it, else the error with its stack. `told`: whether the
 * error's message is such a line.
 */
export function startFailure(error: unknown, told: boolean): string {
  if (!(error instanceof Error)) return String(error);
  if (told) return error.message;
  if ("syscall" in error && error.syscall === "listen") {
    const { address, port } = error as Partial<AddressInfo>;
    const code = errnoOf(error);
    const what = code === "EADDRINUSE" ? "is in use" : `cannot be listened on (${code})`;
    return `the address ${address ?? ""}:${port ?? ""} ${what}`;
  }
  return error.stack ?? error.message;
}
