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

/** One end of a channel between two processes that keeps the order of messages and loses them only when it closes. */
export type Channel<Sent, Received> = {
  /** Sends a message, or drops it when the channel has closed. */
  send(message: Sent): void;
  /** Calls `listener` with each message of the channel's topic that arrives. */
  onMessage(listener: (message: Received) => void): void;
};

/**
 * Makes a channel of one end of a process channel, on which messages of other topics pass, too. A message is of the
 * topic when it has a field of that name; both ends are of one build, so nothing else of its form is checked.
 */
export function processChannel<Sent extends object, Received>(end: ProcessEnd, topic: string): Channel<Sent, Received> {
  return {
    send(message) {
      // A channel that closes meanwhile is no error here: who is at its other end has gone.
      if (end.connected) end.send?.(message, undefined, undefined, () => {});
    },
    onMessage(listener) {
      end.on("message", (message: unknown) => {
        if (typeof message === "object" && message !== null && topic in message) listener(message as Received);
      });
    },
  };
}
