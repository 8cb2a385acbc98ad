import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { HeldPrefix, WatchPrefixesResponse } from "../../proto/gen/svc/inference/v1/node_service.ts";
import type { HeldPrefixes, KvTokens } from "./held-prefixes.ts";
import { digestBytes } from "./prefix-marks.ts";

/** The most prefixes in one message: about 30 KB. */
const MAX_PER_MESSAGE = 1_024;
/** The most changes that wait for a slow reader. Beyond them it gets a reset with the full state. */
const MAX_WAITING = 8_192;
/** The interval at which KV tokens are sent although no prefix has changed, in milliseconds. */
const KV_INTERVAL_MS = 1_000;
/** The least change of the used KV tokens that is sent on its own, as a fraction of the capacity. */
const KV_STEP = 0.01;

export type StreamSink<Sent> = {
  /** Returns false when the reader falls behind; the message is sent nevertheless. */
  write(message: Sent): boolean;
  /** Calls `listener` each time the reader has caught up after `write` returned false. */
  onDrain(listener: () => void): void;
  end(): void;
};

export type PrefixSink = StreamSink<WatchPrefixesResponse>;

/** Open streams, with a timer while there are any. */
export class OpenStreams<Stream extends { readonly sink: Pick<StreamSink<never>, "end"> }> extends Set<Stream> {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #onTick: () => void;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, intervalMs: number, onTick: () => void) {
    super();
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#onTick = onTick;
  }

  /** Starts the timer for an added stream. Returns the function that ends it. */
  opened(stream: Stream): () => void {
    this.#arm();
    return () => this.#drop(stream);
  }

  endAll(): void {
    for (const stream of [...this]) {
      this.#drop(stream);
      stream.sink.end();
    }
  }

  #drop(stream: Stream): void {
    this.delete(stream);
    if (this.size > 0) return;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    this.#cancel ??= this.#clock.after(this.#intervalMs, () => {
      this.#cancel = undefined;
      this.#onTick();
      if (this.size > 0) this.#arm();
    });
  }
}

type Stream = {
  readonly sink: PrefixSink;
  readonly model: string;
  changed: Set<string>;
  /** Whether the next message is a reset, which replaces all earlier ones. */
  reset: boolean;
  blocked: boolean;
  kvUsed: number;
};

/** The WatchPrefixes streams of a node. Changes of one moment share a message. */
export class PrefixStreams {
  readonly #held: HeldPrefixes;
  readonly #streams: OpenStreams<Stream>;
  readonly #unsubscribe: readonly (() => void)[];
  #isScheduled = false;

  constructor(held: HeldPrefixes, clock: Clock) {
    this.#held = held;
    this.#streams = new OpenStreams(clock, KV_INTERVAL_MS, () => this.#sendKv());
    this.#unsubscribe = [
      held.onChange((digest, model) => this.#changed(digest, model)),
      held.onVerdict(({ isAnnounced }) => {
        if (!isAnnounced) this.#streams.endAll();
      }),
    ];
  }

  /** Opens a stream of a model's prefixes. Returns the function that ends it, called when the caller leaves. */
  open(model: string, sink: PrefixSink): () => void {
    const stream: Stream = { sink, model, changed: new Set(), reset: true, blocked: false, kvUsed: -1 };
    sink.onDrain(() => {
      stream.blocked = false;
      this.#send(stream);
    });
    this.#streams.add(stream);
    this.#send(stream);
    return this.#streams.opened(stream);
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#streams.endAll();
  }

  #changed(digest: string, model: string): void {
    for (const stream of this.#streams) {
      // A pending reset sends the full state, so that changes before it need no record.
      if (stream.model !== model || stream.reset) continue;
      stream.changed.add(digest);
      if (stream.changed.size <= Math.max(MAX_WAITING, this.#held.size)) continue;
      stream.changed = new Set();
      stream.reset = true;
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // Sent before the events of the step that changed the cache: the next turn may depend on them.
    queueMicrotask(() => {
      this.#isScheduled = false;
      for (const stream of this.#streams) if (stream.changed.size > 0) this.#send(stream);
    });
  }

  /** Sends pending changes until the reader falls behind. */
  #send(stream: Stream): void {
    let resets = stream.reset;
    if (resets && !stream.blocked) {
      stream.reset = false;
      stream.changed = new Set(this.#held.digestsOf(stream.model));
    }
    while (!stream.blocked && (resets || stream.changed.size > 0)) {
      const { kv } = this.#held;
      stream.kvUsed = kv.used;
      stream.blocked = !stream.sink.write({ ...this.#nextOf(stream), reset: resets, ...kvFields(kv) });
      resets = false;
    }
  }

  #nextOf({ changed }: Stream): Pick<WatchPrefixesResponse, "held" | "dropped"> {
    const held: HeldPrefix[] = [];
    const dropped: string[] = [];
    for (const digest of changed) {
      if (held.length + dropped.length >= MAX_PER_MESSAGE) break;
      changed.delete(digest);
      const now = this.#held.get(digest);
      if (!now) dropped.push(digest);
      else {
        const { tokens, tailTokens, lowerTokens = 0 } = now;
        held.push({ digest: digestBytes([digest]), tokens, tailTokens, lowerTokens });
      }
    }
    return { held, dropped: digestBytes(dropped) };
  }

  #sendKv(): void {
    const { kv } = this.#held;
    for (const stream of this.#streams) {
      if (stream.blocked || Math.abs(kv.used - stream.kvUsed) < KV_STEP * kv.total) continue;
      stream.kvUsed = kv.used;
      stream.blocked = !stream.sink.write({ reset: false, held: [], dropped: digestBytes([]), ...kvFields(kv) });
    }
  }
}

function kvFields({ used, total }: KvTokens): Pick<WatchPrefixesResponse, "kvTokensUsed" | "kvTokensTotal"> {
  return { kvTokensUsed: used, kvTokensTotal: total };
}
