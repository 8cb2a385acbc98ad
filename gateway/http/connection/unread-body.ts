import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";

/** The time that the caller may take to see the answer before its connection is cut, in milliseconds. */
export const LINGER_MS = 1_000;

/**
 * Returns the answer to a request whose body is not going to be read. It is complete with its last byte, as its length
 * is announced, but it ends only when the caller has gone or had time to look at it: closing a connection on which data
 * waits makes the system reset it, and a reset may reach the caller before the answer does. Nothing more of the body is
 * taken in meanwhile.
 */
export function answerToUnread(request: IncomingMessage, body: string): Readable {
  request.pause();
  const { socket } = request;
  const forget = () => {
    cancel();
    socket.off("close", end);
  };
  const answer = new Readable({
    read() {},
    destroy(error, done) {
      forget();
      done(error);
    },
  });
  const end = () => {
    forget();
    answer.push(null);
  };
  const cancel = systemClock.after(LINGER_MS, end);
  answer.push(body);
  if (socket.destroyed) end();
  else socket.once("close", end);
  return answer;
}
