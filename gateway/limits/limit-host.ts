import type { LimitChannel, LimitReply, LimitRequest } from "./limit-message.ts";
import type { Lease, LimitStore } from "./limit-store.ts";

/** Keeps the counts of several gateway workers, each at the end of a channel: the limits of a key hold for all together. */
export class LimitHost {
  readonly #store: LimitStore;

  constructor(store: LimitStore) {
    this.#store = store;
  }

  /** Answers a worker. The returned function is to be called when it has ended: it gives back the places that it held. */
  attach(channel: LimitChannel<LimitReply, LimitRequest>): () => void {
    const leases = new Map<number, Lease>();
    let attached = true;
    const answer = async (request: LimitRequest): Promise<void> => {
      switch (request.limits) {
        case "charge": {
          const charged = await this.#store.charge(request.keyId, request.items);
          channel.send({ limits: "charged", id: request.id, charged });
          return;
        }
        case "lease": {
          const lease = await this.#store.lease(request.keyId, request.name, request.limit);
          if (lease && attached) leases.set(request.id, lease);
          else lease?.release();
          channel.send({ limits: "leased", id: request.id, granted: lease !== undefined });
          return;
        }
        case "settle":
          this.#store.settle(request.keyId, request.name, request.amount);
          return;
        case "release":
          leases.get(request.id)?.release();
          leases.delete(request.id);
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
      for (const lease of leases.values()) lease.release();
      leases.clear();
    };
  }
}
