import { once } from "node:events";
import { createServer } from "node:net";
import { errnoOf } from "../runtime/files/private-file.ts";

/** A port that cannot be bound; the message names the port and its flag. */
export class PortError extends Error {
  override readonly name = "PortError";
}

/** A port of this machine to be bound, and its flag; port 0 is any free one. */
export type WantedPort = { readonly flag: string; readonly port: number };

/**
 * Throws `PortError` for the first port that cannot be bound at 127.0.0.1, before any process is started. Ports 0 are
 * skipped.
 */
export async function requireFreePorts(wanted: readonly WantedPort[]): Promise<void> {
  for (const { flag, port } of wanted) {
    if (port === 0) continue;
    const server = createServer();
    try {
      server.listen({ host: "127.0.0.1", port, exclusive: true });
      await once(server, "listening");
    } catch (cause) {
      throw new PortError(`${flag}: 127.0.0.1:${port} ${reasonOf(cause)}`, { cause });
    }
    server.close();
    await once(server, "close");
  }
}

function reasonOf(error: unknown): string {
  const code = errnoOf(error);
  if (code === "EADDRINUSE") return "is in use by another process";
  return code === "EACCES" ? "may not be listened on by this user" : `cannot be listened on (${code})`;
}
