import { once } from "node:events";
import { createServer } from "node:net";

/**
 * The ports below those that systems give out by themselves (from 32,768 on Linux, from 49,152 elsewhere). No connection and no
 * listener that asked for any port gets one of these, so one that was left is still there when its owner comes back.
 */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_767;
const ATTEMPTS = 100;

/** The ports that this process has given out, each to one user only. */
const given = new Set<number>();

/**
 * Resolves to a port of this machine that nobody listens on and that the system gives to nobody by itself: for listeners whose
 * port must be known beforehand, and for those that come back on it.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error("no port is free");
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  await once(server.close(), "close");
  return true;
}
