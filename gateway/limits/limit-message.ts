import type { Charged, ChargeItem } from "./limit-store.ts";

/** What a gateway worker asks the process that keeps the counts of all. `id`: of the worker's own choice, never used twice. */
export type LimitRequest =
  | { readonly limits: "charge"; readonly id: number; readonly keyId: string; readonly items: readonly ChargeItem[] }
  | { readonly limits: "settle"; readonly keyId: string; readonly name: string; readonly amount: number }
  | {
      readonly limits: "place";
      readonly id: number;
      readonly keyId: string;
      readonly name: string;
      readonly limit: number;
    }
  /** `id`: of the request that got the place. */
  | { readonly limits: "release"; readonly id: number };

/** The answer to `charge` and to `place`; the others have none. */
export type LimitReply =
  | { readonly limits: "charged"; readonly id: number; readonly charged: Charged }
  | { readonly limits: "placed"; readonly id: number; readonly granted: boolean };

/** One end of a channel between two processes that keeps the order of messages, and loses them only when it closes. */
export type LimitChannel<Sent, Received> = {
  /** Drops the message when the channel has closed. */
  send(message: Sent): void;
  /** Called for each message about limits. */
  onMessage(listener: (message: Received) => void): void;
};

/** Whether a message is about limits: a channel may carry others. Both ends are of one build, so its form is not checked. */
export function isAboutLimits(message: unknown): boolean {
  return typeof message === "object" && message !== null && "limits" in message;
}
