import { randomUUID } from "node:crypto";

/**
 * Returns an id of 32 characters of `[0-9a-f]`, 122 bits of them random. Node keeps a stock of UUIDs, so that few of
 * them cost a system call.
 */
export function randomId(): string {
  return randomUUID().replaceAll("-", "");
}

/** Returns the id of a new request, by which callers and operators talk about it: `req_` and a random id. */
export function newRequestId(): string {
  return `req_${randomId()}`;
}
