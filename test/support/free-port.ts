import { once } from "node:events";
import { createServer, type Server } from "node:net";

/**
 * The ports below those that systems give out by themselves (from 32,768 on Linux, from 49,152 elsewhere). No connection and no
 * listener that asked for any port gets one of these, so one that was left is still there when its owner comes back.
 */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_767;
/**
 * Processes take their ports from blocks that each has for itself: two that tried the same port in the same millisecond would
 * fail one of them. Whoever listens on the first port of a block has the block, until the process ends.
 */
const BLOCK_PORTS = 128;
const BLOCKS = Math.floor((LAST_PORT - FIRST_PORT + 1) / BLOCK_PORTS);

/** The ports that are left of the block that this process has, the lowest last. */
let left: number[] = [];
/** The block that is being taken, for all who wait for it. */
let taking: Promise<void> | undefined;

/**
 * Resolves to a port of this machine that nobody listens on, that the system gives to nobody by itself and that no other call
 * of this function gets, in whatever process: for listeners whose port must be known beforehand, and for those that come back
 * on it. With `inARow` the ports behind it are as free, so many in all: services give their further processes those.
 */
export async function freePort(inARow = 1): Promise<number> {
  for (;;) {
    const ports = left.splice(-inARow);
    const [first] = ports.slice(-1);
    if (first === undefined || ports.length < inARow) {
      taking ??= takeBlock().finally(() => (taking = undefined));
      await taking;
    } else if (await areFree(ports)) return first;
  }
}

async function areFree(ports: readonly number[]): Promise<boolean> {
  for (const port of ports) {
    const server = await listening(port);
    if (!server) return false;
    await once(server.close(), "close");
  }
  return true;
}

async function takeBlock(): Promise<void> {
  const start = Math.floor(Math.random() * BLOCKS);
  for (let tried = 0; tried < BLOCKS; tried += 1) {
    const first = FIRST_PORT + ((start + tried) % BLOCKS) * BLOCK_PORTS;
    const owner = await listening(first);
    if (!owner) continue;
    owner.unref();
    left = Array.from({ length: BLOCK_PORTS - 1 }, (_, index) => first + BLOCK_PORTS - 1 - index);
    return;
  }
  throw new Error("no block of ports is free");
}

/** Resolves to a server that listens on the port, or to none where another does. */
async function listening(port: number): Promise<Server | undefined> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
    return server;
  } catch {
    return undefined;
  }
}
