import { once } from "node:events";
import { createServer, type Server } from "node:net";

/** Below the ephemeral range: the system assigns none of these, so a port stays free while its owner restarts. */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_767;
/**
 * Each process takes its ports from an exclusive block: two processes that try the same port at the same time would
 * make one of them fail. A process owns a block while it listens on its first port.
 */
const BLOCK_PORTS = 128;
const BLOCKS = Math.floor((LAST_PORT - FIRST_PORT + 1) / BLOCK_PORTS);

/** Unused ports of this process's block, lowest last. */
let left: number[] = [];
/** The pending allocation of a block, shared by all callers. */
let taking: Promise<void> | undefined;

/**
 * Resolves to a free port of this machine that the system does not assign and no other call of this function returns,
 * in any process: for listeners whose port must be known beforehand, or that restart on it. With `inARow`, that many
 * consecutive ports are free: services give them to their further processes.
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

/** Resolves to a server that listens on the port, or to undefined if the port is in use. */
async function listening(port: number): Promise<Server | undefined> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
    return server;
  } catch {
    return undefined;
  }
}
