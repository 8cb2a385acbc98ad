import type { FastifyRequest } from "fastify";

/**
 * Returns who sent a request, as far as its head says before it is known whether that is true: the key that it shows, or
 * its address.
 */
export function callerOf({ raw: { headers, socket } }: Pick<FastifyRequest, "raw">): string {
  return String(headers.authorization ?? headers["x-api-key"] ?? socket.remoteAddress);
}
