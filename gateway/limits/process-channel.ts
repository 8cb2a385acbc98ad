import { isAboutLimits, type LimitChannel } from "./limit-message.ts";

/** Either end of the channel between a process and a child that it started with one: the child, or `process` in the child. */
export type ProcessEnd = {
  readonly connected: boolean;
  /** Absent in a process that was started without a channel. */
  send?(message: object, handle: undefined, options: undefined, sent: () => void): boolean;
  on(event: "message", listener: (message: unknown) => void): unknown;
};

/** What both processes say to each other about limits. */
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
