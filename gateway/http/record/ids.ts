import { randomUUID } from "node:crypto";

/** 32 characters of `[0-9a-f]`, 122 bits of them by chance. Node keeps a stock of UUIDs, so that few of them cost a system call. */
export function randomId(): string {
  return randomUUID().replaceAll("-", "");
}
