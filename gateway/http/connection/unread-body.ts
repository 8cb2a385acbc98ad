import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds for which the caller may read the reply before its connection is closed. */
export const LINGER_MS = 1_000;

/**
 * Returns the reply to a request whose body will not be read. It is complete with its last byte, because its length is
 * announced, but it ends only when the caller has left or had time to read it: closing a connection with unread data
 * makes the system send a reset, which may reach the caller before the reply. No more of the body is read meanwhile.
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
