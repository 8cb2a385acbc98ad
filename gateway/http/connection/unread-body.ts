import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

/** The time that the caller may take to see the answer before its upload is cut, in milliseconds. */
const LINGER_MS = 1_000;

/**
 * Returns the answer to a request whose body is not going to be read. It is complete with its last byte, as its length
 * is announced, but it ends only when the caller has gone or had time to look at it: closing a connection on which data
 * waits makes the system reset it, and a reset may reach the caller before the answer does. Nothing more of the body is
 * taken in meanwhile.
 */
export function answerToUnread(request: IncomingMessage, body: string): Readable {
  request.pause();
  return Readable.from(lingering(request, Buffer.from(body)), { objectMode: false });
}

async function* lingering({ socket }: IncomingMessage, body: Buffer): AsyncGenerator<Buffer, void, void> {
  yield body;
  if (socket.destroyed) return;
  const timeout = AbortSignal.timeout(LINGER_MS);
  // Rejects when the time is over, which is one of the two ends that are fine.
  await once(socket, "close", { signal: timeout }).catch(() => undefined);
}
