import { isAboutLimits, type LimitChannel } from "./limit-message.ts";

/**
 * One of the two ends of the channel between a process and a child that it started with one: the child object in the
 * parent, or `process` in the child.
 */
export type ProcessEnd = {
  /** Whether the channel is open. */
  readonly connected: boolean;
  /** Sends a message to the other end. Absent in a process that was started without a channel. */
  send?(message: object, handle: undefined, options: undefined, sent: () => void): boolean;
  /** Calls `listener` with each message that arrives. */
  on(event: "message", listener: (message: unknown) => void): unknown;
};

/** Makes a limit channel of one end of a process channel, on which other messages pass, too. */
export function processChannel<Sent extends object, Received>(end: ProcessEnd): LimitChannel<Sent, Received> {
  return {
    send(message) {
      // A channel that closes meanwhile is no error here: who is at its other end has gone.
      if (end.connected) end.send?.(message, undefined, undefined, () => {});
    },
    onMessage(listener) {
      end.on("message", (message: unknown) => {
        if (isAboutLimits(message)) listener(message as Received);
      });
    },
  };
}
