import type { Subscriber } from "zeromq";
import { WorkTurns } from "../../../../deploy/runtime/time/work-turns.ts";
import { EngineError } from "../../../errors.ts";
import { type KvEvent, readKvEvents } from "./kv-event.ts";

/** The package zeromq, once it is loaded. */
export type ZmqLibrary = typeof import("zeromq");

/** The most bytes of one batch of events: one of a step's is some KB. */
const MAX_BATCH_BYTES = 64 * 1024 * 1024;
/** The most batches that wait to be read; those beyond them are lost, which their numbers tell. */
const MAX_WAITING = 10_000;
const RECONNECT_MS = { first: 100, most: 2_000 };
/** The longest time for which a batch is read in one turn of the event loop, in milliseconds. */
const TURN_MS = 3;
/** The longest time between two batches that come again, in milliseconds. */
const REPLAY_TIMEOUT_MS = 5_000;
/** The number under which the engine ends what it sends again. */
const END_OF_REPLAY = 2n ** 64n - 1n;

/** Where one rank of an engine publishes its events. */
export type FeedAddress = {
  /** The ZeroMQ endpoint at which it publishes. */
  readonly endpoint: string;
  /** Whether the engine connects to that endpoint, at which the node then listens. */
  readonly listen: boolean;
  /** The ZeroMQ endpoint that sends batches again; undefined where there is none. */
  readonly replayEndpoint: string | undefined;
};

/** Takes what a feed has to say. */
export type FeedSink = {
  /** Takes the next events, in the order in which the engine tells them. */
  take(events: readonly KvEvent[]): void;
  /** Called where all that was taken so far counts no longer. */
  forget(): void;
};

/**
 * Loads the package zeromq. Only nodes that read an engine's KV events need it, and it is native code, so it is loaded
 * only here. Throws `EngineError` ENGINE_DOWN where it has no binary for this machine.
 */
export async function loadZmq(): Promise<ZmqLibrary> {
  try {
    return await import("zeromq");
  } catch (cause) {
    throw new EngineError(
      "ENGINE_DOWN",
      "The package zeromq could not be loaded: it may have no binary for this machine.",
      {},
      cause,
    );
  }
}

/**
 * Reads the batches that one rank of an engine publishes, in their order. What is missing between two numbers is asked
 * for again; where it does not come, and where the connection breaks, as it does when the engine ends, all that was
 * taken is forgotten.
 */
export class EventFeed {
  readonly #zmq: ZmqLibrary;
  readonly #address: FeedAddress;
  readonly #sink: FeedSink;
  readonly #subscriber: Subscriber;
  /** The number of the batch that comes next. */
  #next = 0n;
  #closed = false;
  /** How often all that was taken was forgotten: the rest of a batch that was being read then is, too. */
  #begun = 0;

  /** Connects to the engine, again and again until it is there. */
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

  /** Listens, where the engine is the one that connects. Rejects where the endpoint is taken. */
  async open(): Promise<void> {
    if (this.#address.listen) await this.#subscriber.bind(this.#address.endpoint);
  }

  /** Closes the connection. */
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
    // A publisher that begins anew, although the connection was not seen to break.
    if (number === 0n && this.#next > 0n) this.#begin();
    if (number > this.#next) await this.#catchUp();
    if (number > this.#next) this.#sink.forget();
    if (number >= this.#next) await this.#take(number, payload);
  }

  /** Reads a batch in turns of the event loop. The next one waits until it is taken whole. */
  async #take(number: bigint, payload: Uint8Array): Promise<void> {
    this.#next = number + 1n;
    const begun = this.#begun;
    try {
      for await (const event of readKvEvents(payload, new WorkTurns(TURN_MS))) {
        if (this.#closed || begun !== this.#begun) return;
        this.#sink.take([event]);
      }
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (begun === this.#begun) this.#sink.forget();
    }
  }

  /** Asks for the batches from the next number on, and takes what of them the engine still has. */
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
      // It does not answer: then what is missing is lost.
    } finally {
      dealer.close();
    }
  }
}

/** Returns the last two frames of a message, its number and what it holds; the topic in front of them may be missing. */
function batchOf(frames: readonly Buffer[]): { readonly number: bigint; readonly payload: Buffer } | undefined {
  const [number, payload] = frames.slice(-2);
  return number?.length === 8 && payload ? { number: number.readBigUInt64BE(), payload } : undefined;
}
