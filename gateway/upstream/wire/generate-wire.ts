import type { Metadata, ServiceError } from "@grpc/grpc-js";
import type { HandOver } from "./hand-over.ts";

/** The metadata that goes along with a call, by name in lower case: the context of its trace. */
export type CallHeaders = Readonly<Record<string, string>>;

/** A Generate call as it is to be put on the wire. */
export type WireRequest = {
  /** The message, in the bytes of the contract. Whoever sends it keeps nothing of it. */
  readonly message: Uint8Array;
  /** The headers that go along with the call as metadata. */
  readonly headers: CallHeaders;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  /** Makes the message wait for its turn, and is told when the connection has taken it. */
  readonly handOver: HandOver;
};

/** How a Generate call ended. */
export type WireEnd = {
  /** The status that the call failed with; undefined where it ended well. */
  readonly error: ServiceError | undefined;
  /** The trailers of the node; empty where it has sent none. */
  readonly trailers: Metadata;
};

/** Takes what comes of one Generate call. Nothing is called before the call was opened, and nothing behind its end. */
export type WireListener = {
  /** Takes a message, which is the bytes from `from` to before `to`. They hold for the time of the call. */
  message(bytes: Buffer, from: number, to: number): void;
  /** Takes the end of the call, behind its last message where it ended well. Called once. */
  ended(end: WireEnd): void;
};

/** A Generate call that runs. */
export type WireCall = {
  /**
   * Whether the connection that the call goes over stands, with TLS and the settings of HTTP/2 agreed: it stays true for
   * a connection that gets no new calls.
   */
  readonly connected: boolean;
  /**
   * Cancels the call, and tells the node. It ends at once, or soon. "silent" says that it was for saying nothing, which
   * may be the connection's fault: that has to show that it lives before it gets another call.
   */
  cancel(why?: "silent"): void;
  /** Stops reading the call, and no other: what its node goes on to send stays there once a window is full. */
  pause(): void;
  /** Reads on after `pause`. */
  resume(): void;
};

/** What carries Generate calls to one endpoint. All wires keep the contract alike; nobody else sees which one it is. */
export interface GenerateWire {
  /**
   * Connects where there is no connection, so that the next call finds one. It is called when the endpoint is first used,
   * and whenever a check of its health has passed.
   */
  warm(): void;
  /** Opens a call. */
  open(request: WireRequest, listener: WireListener): WireCall;
  /** Closes the connection: no call can be opened any more. */
  close(): void;
}

/** Returns the bytes of a message as a Buffer, without a copy of them. */
export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
