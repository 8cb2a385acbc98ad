import type { Server } from "@grpc/grpc-js";

/** Milliseconds for a connection that has not completed its HTTP/2 handshake. */
const SILENT_MS = 250;

/**
 * Closes a server: waits `graceMs` milliseconds for sent bytes to arrive, then closes the remaining connections,
 * because health watches and idle connections do not end. `address` is the address of the server, undefined if it does
 * not listen. Never rejects. The connections are closed with the drain of grpc-js, because its forceShutdown closes
 * none without channelz.
 */
export async function closeServer(server: Server, address: string | undefined, graceMs: number): Promise<void> {
  if (address !== undefined) server.drain(address, graceMs);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, graceMs + SILENT_MS);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
  server.forceShutdown();
}
