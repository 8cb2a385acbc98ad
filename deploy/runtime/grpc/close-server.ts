import type { Server } from "@grpc/grpc-js";

/** The time that a connection gets which never got as far as HTTP/2, in milliseconds. */
const SILENT_MS = 250;

/**
 * Closes a server: lets what has been sent arrive for `graceMs` milliseconds, then closes the connections that are
 * still there, as health watches and idle ones never end by themselves. `address` is where the server listens,
 * undefined if it does not. Never rejects. The connections are closed by the drain of grpc-js, because its
 * forceShutdown closes none where channelz is off.
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
