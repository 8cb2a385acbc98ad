import { randomUUID } from "node:crypto";

/**
 * Returns an id of 32 characters of `[0-9a-f]`, 122 bits of them random. Node generates UUIDs in batches, so few of
 * them cost a system call.
 */
export function randomId(): string {
  return randomUUID().replaceAll("-", "");
}

/** Returns a new request id for callers and operators: `req_` and a random id. */
export function newRequestId(): string {
  return `req_${randomId()}`;
}
