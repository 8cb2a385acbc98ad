import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { LimitReply, LimitRequest } from "./limit-message.ts";
import type { LimitStore, Place } from "./limit-store.ts";

/**
 * Keeps the counts of several gateway workers, each at the end of a channel, so that the limits of a key hold for all
 * of them together.
 */
export class LimitHost {
  readonly #store: LimitStore;

  /** Makes a host whose counts, of all workers together, are kept in `store`. */
  constructor(store: LimitStore) {
    this.#store = store;
  }

  /**
   * Answers the worker at the end of `channel`. The returned function is to be called when the worker has ended: it
   * gives back the places that the worker held.
   */
  attach(channel: Channel<LimitReply, LimitRequest>): () => void {
    const places = new Map<number, Place>();
    let attached = true;
    const answer = async (request: LimitRequest): Promise<void> => {
      switch (request.limits) {
        case "charge": {
          const { place, ...charged } = await this.#store.charge(request.keyId, request.items, ...request.places);
          if (place && attached) places.set(request.id, place);
          else place?.release();
          channel.send({ limits: "charged", id: request.id, charged, placed: place !== undefined });
          return;
        }
        case "settle":
          this.#store.settle(request.keyId, request.name, request.amount);
          return;
        case "release":
          places.get(request.id)?.release();
          places.delete(request.id);
          return;
        default:
          request satisfies never;
      }
    };
    channel.onMessage((request) => {
      if (attached) void answer(request);
    });
    return () => {
      attached = false;
      for (const place of places.values()) place.release();
      places.clear();
    };
  }
}
