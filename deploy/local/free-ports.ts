import { once } from "node:events";
import { createServer } from "node:net";
import { errnoOf } from "../runtime/files/errno.ts";

/** The error for a port that cannot be listened on; its message names the port and the flag that chooses it. */
export class PortError extends Error {
  override readonly name = "PortError";
}

/** A port of this machine that is about to be listened on, and the flag that chose it; port 0 is any free one. */
export type WantedPort = { readonly flag: string; readonly port: number };

/**
 * Throws `PortError` for the first wanted port that cannot be listened on at 127.0.0.1, so that a start which cannot be
 * finished is not begun. Ports 0 are passed over.
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
