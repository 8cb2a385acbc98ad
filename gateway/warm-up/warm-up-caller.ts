import { connect, type Socket } from "node:net";

const HEAD_END = "\r\n\r\n";
const LAST_CHUNK = "0\r\n\r\n";

/** Requests over some connections, one after the other on each. */
export type WarmUpCallerOptions = {
  /** The port of this machine that is asked. */
  readonly port: number;
  /** The number of connections. */
  readonly connections: number;
  /** Returns the next request, as the bytes of HTTP/1.1, in Latin-1; undefined when there is none any more. */
  readonly next: () => string | undefined;
};

/**
 * Sends what `next` returns until it returns nothing. Resolves when all answers have come, or when a connection was
 * lost: what is exercised is not judged. It reads no more of an answer than where it ends, to cost next to nothing.
 */
export async function callUntilDone({ port, connections, next }: WarmUpCallerOptions): Promise<void> {
  await Promise.all(Array.from({ length: connections }, () => callOver(connect({ port, host: "127.0.0.1" }), next)));
}

function callOver(socket: Socket, next: () => string | undefined): Promise<void> {
  return new Promise((resolve) => {
    let had = "";
    const ask = () => {
      had = "";
      const request = next();
      if (request === undefined) socket.destroy();
      else socket.write(request, "latin1");
    };
    socket.setNoDelay();
    socket.on("connect", ask);
    socket.on("data", (bytes) => {
      had += bytes.toString("latin1");
      if (isWholeAnswer(had)) ask();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
}

/** Returns whether a text, the bytes of an answer in Latin-1, holds a whole answer of HTTP/1.1. */
export function isWholeAnswer(text: string): boolean {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd === -1) return false;
  const length = /^content-length: *(\d+)/im.exec(text.slice(0, headEnd))?.[1];
  if (length === undefined) return text.endsWith(LAST_CHUNK);
  return text.length >= headEnd + HEAD_END.length + Number(length);
}
