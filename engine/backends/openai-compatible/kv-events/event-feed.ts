import type { Subscriber } from "zeromq";
import { WorkSlices } from "../../../../deploy/runtime/time/work-slices.ts";
import { EngineError } from "../../../errors.ts";
import { type KvEvent, readKvEvents } from "./kv-event.ts";

export type ZmqLibrary = typeof import("zeromq");

/** The most bytes of one batch of events; the batch of one step has some KB. */
const MAX_BATCH_BYTES = 64 * 1024 * 1024;
/** The most waiting batches; further ones are lost, which the sequence numbers show. */
const MAX_WAITING = 10_000;
const RECONNECT_MS = { first: 100, most: 2_000 };
/** The longest decoding of a batch per tick of the event loop, in milliseconds. */
const SLICE_MS = 3;
/** The longest time between two replayed batches, in milliseconds. */
const REPLAY_TIMEOUT_MS = 5_000;
const END_OF_REPLAY = 2n ** 64n - 1n;

export type FeedAddress = {
  readonly endpoint: string;
  /** Whether the node listens at that endpoint and the engine connects to it. */
  readonly listen: boolean;
  /** The ZeroMQ endpoint that replays batches; undefined for none. */
  readonly replayEndpoint: string | undefined;
};

export type FeedSink = {
  /** Receives the next events, in the engine's order. */
  take(events: readonly KvEvent[]): void;
  /** Called when all earlier events become invalid. */
  forget(): void;
};

/** Loads the native package zeromq, which only nodes with KV events need; undefined if it has no binary for this machine. */
export async function loadZmq(): Promise<ZmqLibrary | undefined> {
  return await import("zeromq").catch(() => undefined);
}

/**
 * Reads the batches of one engine rank in order. Missing sequence numbers are requested from the replay endpoint. If
 * they do not arrive, or the connection breaks, as it does when the engine ends, all state is invalidated.
 */
export class EventFeed {
  readonly #zmq: ZmqLibrary;
  readonly #address: FeedAddress;
  readonly #sink: FeedSink;
  readonly #subscriber: Subscriber;
  #next = 0n;
  #closed = false;
  /** The number of invalidations: the rest of a batch that is being read meanwhile is invalid, too. */
  #begun = 0;

  /** Connects to the engine, with retries. */
  constructor(zmq: ZmqLibrary, address: FeedAddress, sink: FeedSink) {
    this.#zmq = zmq;
    this.#address = address;
    this.#sink = sink;
    this.#subscriber = new zmq.Subscriber({
      receiveHighWaterMark: MAX_WAITING,
      maxMessageSize: MAX_BATCH_BYTES,
      reconnectInterval: RECONNECT_MS.first,
      reconnectMaxInterval: RECONNECT_MS.most,
      linger: 0,
    });
    this.#subscriber.events.on("disconnect", () => this.#begin());
    // Of all topics.
    this.#subscriber.subscribe("");
    if (!address.listen) this.#subscriber.connect(address.endpoint);
    void this.#read();
  }

  /** Listens if the engine connects to the node. Rejects if the endpoint is in use. */
  async open(): Promise<void> {
    if (this.#address.listen) await this.#subscriber.bind(this.#address.endpoint);
  }

  close(): void {
    this.#closed = true;
    this.#subscriber.close();
  }

  #begin(): void {
    this.#next = 0n;
    this.#begun += 1;
    if (!this.#closed) this.#sink.forget();
  }

  async #read(): Promise<void> {
    for await (const frames of this.#subscriber) {
      const batch = batchOf(frames);
      if (batch) await this.#came(batch.number, batch.payload);
    }
  }

  async #came(number: bigint, payload: Uint8Array): Promise<void> {
    // The publisher was restarted, although no disconnect was observed.
    if (number === 0n && this.#next > 0n) this.#begin();
    if (number > this.#next) await this.#catchUp();
    if (number > this.#next) this.#sink.forget();
    if (number >= this.#next) await this.#take(number, payload);
  }

  /** Decodes a batch in slices of the event loop. The next batch waits for its end. */
  async #take(number: bigint, payload: Uint8Array): Promise<void> {
    this.#next = number + 1n;
    const begun = this.#begun;
    try {
      for await (const event of readKvEvents(payload, new WorkSlices(SLICE_MS))) {
        if (this.#closed || begun !== this.#begun) return;
        this.#sink.take([event]);
      }
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (begun === this.#begun) this.#sink.forget();
    }
  }

  /** Requests the batches from the next sequence number on, and takes those that the engine still has. */
  async #catchUp(): Promise<void> {
    const { replayEndpoint } = this.#address;
    if (replayEndpoint === undefined) return;
    const dealer = new this.#zmq.Dealer({
      linger: 0,
      receiveTimeout: REPLAY_TIMEOUT_MS,
      sendTimeout: REPLAY_TIMEOUT_MS,
      maxMessageSize: MAX_BATCH_BYTES,
    });
    try {
      dealer.connect(replayEndpoint);
      const from = Buffer.alloc(8);
      from.writeBigUInt64BE(this.#next);
      await dealer.send(["", from]);
      while (!this.#closed) {
        const batch = batchOf(await dealer.receive());
        if (!batch || batch.number === END_OF_REPLAY) return;
        if (batch.number > this.#next) this.#sink.forget();
        if (batch.number >= this.#next) await this.#take(batch.number, batch.payload);
      }
    } catch {
      // Without a reply the missing batches are lost.
    } finally {
      dealer.close();
    }
  }
}

/** Returns the last two frames of a message, sequence number and payload; the topic before them may be missing. */
function batchOf(frames: readonly Buffer[]): { readonly number: bigint; readonly payload: Buffer } | undefined {
  const [number, payload] = frames.slice(-2);
  return number?.length === 8 && payload ? { number: number.readBigUInt64BE(), payload } : undefined;
}
