import type { Server } from "@grpc/grpc-js";

/** What a connection gets that never got as far as HTTP/2, in milliseconds. */
const SILENT_MS = 250;

/**
 * Lets what has been sent arrive for `graceMs`, then closes the connections that are still there: health watches and idle
 * ones never end by themselves. It is grpc-js' drain that closes them: its forceShutdown does not where channelz is off.
 */
export async function hangUp(server: Server, address: string | undefined, graceMs: number): Promise<void> {
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
