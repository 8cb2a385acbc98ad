import type { Metadata, ServiceError } from "@grpc/grpc-js";
import * as z from "zod";
import type { HandOver } from "./hand-over.ts";

export const upstreamSchema = z
  .strictObject({
    wire: z
      .enum(["grpc", "fast"])
      .default("fast")
      .describe(
        "Client of calls that generate: `fast` is our HTTP/2 with less work per token, on a connection of its own; `grpc` is grpc-js, as for all other calls.",
      ),
  })
  .prefault({})
  .describe("How the gateway speaks to engine nodes.");

export type WireKind = z.infer<typeof upstreamSchema>["wire"];

/** The metadata sent with a call, by name in lower case: its trace context. */
export type CallHeaders = Readonly<Record<string, string>>;

export type WireRequest = {
  /** The message, in the bytes of the contract. The sender keeps no reference. */
  readonly message: Uint8Array;
  readonly headers: CallHeaders;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  /** Delays the message until its turn, and is notified when the connection has taken it. */
  readonly handOver: HandOver;
};

export type WireEnd = {
  readonly error: ServiceError | undefined;
  readonly trailers: Metadata;
};

/** Receives the events of one Generate call. No method is called before `open` returns, nor after the end. */
export type WireListener = {
  /** Takes a message, the bytes from `from` to before `to`. They are valid only during the call. */
  message(bytes: Buffer, from: number, to: number): void;
  ended(end: WireEnd): void;
};

export type WireCall = {
  /** Whether the connection is established; stays true for one that gets no new calls. */
  readonly connected: boolean;
  /** Cancels the call on the node as well; "silent": its connection is probed before it gets another call. */
  cancel(why?: "silent"): void;
  /** Stops reading this call, and no other: the node stops sending once a window is full. */
  pause(): void;
  resume(): void;
};

export interface GenerateWire {
  /** The end of the certificate that the node showed last, in milliseconds of the wall clock; undefined where unknown. */
  readonly peerEndsMs?: number | undefined;
  /** Connects where there is no connection. Called at the first use, and after every passed health check. */
  warm(): void;
  open(request: WireRequest, listener: WireListener): WireCall;
  close(): void;
}

/** Returns the bytes of a message as a Buffer, without copying them. */
export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
