import { type ChannelCredentials, Client, connectivityState, credentials } from "@grpc/grpc-js";
import type { Pems } from "../../../deploy/runtime/files/followed-pems.ts";
import { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import type { ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { GenerateWire } from "../wire/generate-wire.ts";
import { GrpcJsWire } from "../wire/grpc-js-wire.ts";
import { Http2Wire } from "../wire/http2-wire.ts";
import type { WireKind } from "../wire/wire-settings.ts";
import { describeNode, type NodeAnswer } from "./describe-node.ts";
import { LastReport } from "./endpoint-load.ts";

/** The size of the largest request message, in bytes. A prompt of a million tokens is several MB. */
const MAX_REQUEST_BYTES = 64 * 1024 * 1024;
/** The size of the largest reply message, in bytes. No single message of a stream comes near this. */
export const MAX_REPLY_BYTES = 8 * 1024 * 1024;

/** How connections to an endpoint are secured. */
export type EndpointTls = {
  /** The certificates to trust and to show. */
  readonly credentials: ChannelCredentials;
  /** Returns the PEM texts of these certificates that new connections are to use now. */
  readonly pems: () => Pems;
  /** The name that the certificate of the endpoint must be for; undefined for the host of its address. */
  readonly serverName: string | undefined;
};

/** A call that counts as running on its endpoint until it is ended. */
export type EndpointCall = {
  /** Takes the call off the endpoint, however it ended. A second call does nothing. */
  end(): void;
};

/**
 * One engine node at its address: its channel, what it said about itself, and the calls that run on it. What is known
 * about one of its models in particular is with the cluster of the model.
 */
export class Endpoint {
  /** The address of the node, `host:port`. */
  readonly address: string;
  /** The newest load report of the node. */
  readonly report = new LastReport(() => this.#tell());
  /** Lets big messages to the node go one after the other. */
  readonly handOvers = new FairLane();
  /** Carries the calls that generate. */
  readonly wire: GenerateWire;
  readonly #tls: EndpointTls | undefined;
  #client: Client | undefined;
  readonly #failNow = new Set<() => void>();
  readonly #newsListeners = new Set<() => void>();
  #descriptions: ReadonlyMap<string, ModelDescription> = new Map();
  #describing: Promise<NodeAnswer> | undefined;
  #startedAtMs = 0;
  #drained = false;
  #whenIdle: (() => void) | undefined;
  #active = 0;

  /**
   * Speaks to `host:port`; without `tls` in plain text. Calls that generate go over the `wire`, by default `fast`, which
   * keeps their deadlines by `clock`, by default the system's.
   */
  constructor(address: string, tls?: EndpointTls, wire: WireKind = "fast", clock: Clock = systemClock) {
    this.address = address;
    this.#tls = tls;
    this.wire =
      wire === "fast"
        ? new Http2Wire({ address, tls, maxMessageBytes: MAX_REPLY_BYTES, clock })
        : new GrpcJsWire(() => this.client);
  }

  /** The gRPC client on the endpoint's one channel, which is for calls of all models. It is made when it is first used. */
  get client(): Client {
    if (!this.#client) {
      this.#client = this.#connected();
      this.wire.warm();
    }
    return this.#client;
  }

  #connected(): Client {
    const tls = this.#tls;
    return new Client(this.address, tls?.credentials ?? credentials.createInsecure(), {
      ...(tls?.serverName !== undefined && { "grpc.ssl_target_name_override": tls.serverName }),
      "grpc.max_send_message_length": MAX_REQUEST_BYTES,
      "grpc.max_receive_message_length": MAX_REPLY_BYTES,
      // Retries are the router's: grpc-js would keep a copy of every prompt for them, and commits at other moments.
      "grpc.enable_retries": 0,
      // A call that buffers nothing for retries of its own tells when its message has been written.
      "grpc.per_rpc_retry_buffer_size": 0,
      "grpc.enable_channelz": 0,
      // Nodes are spoken to directly, as by the wire that is not grpc-js: a proxy of the environment is for the world outside.
      "grpc.enable_http_proxy": 0,
      // Also what ends a connection that brings nonsense: Node stops reading it and tells nobody, so that its calls hang
      // until the next ping fails, or their idle limit.
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.keepalive_permit_without_calls": 1,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 2_000,
      // Each endpoint has a channel of its own, as load is counted per endpoint.
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  /** Whether the channel to the endpoint stands, with TLS and the settings of HTTP/2 agreed. */
  get connected(): boolean {
    return this.#client?.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  /** The number of calls of this gateway that run on the endpoint, of all its models. */
  get activeRequests(): number {
    return this.#active;
  }

  /**
   * Returns the node's own description of a model, from when it was last asked; undefined when it named no such model.
   */
  description(model: string): ModelDescription | undefined {
    return this.#descriptions.get(model);
  }

  /**
   * Asks the node what it serves, until `deadline` in milliseconds of the wall clock. Callers at one time share a call.
   */
  describe(deadline: number): Promise<NodeAnswer> {
    this.#describing ??= describeNode(this.client, deadline).then((answer) => {
      this.#describing = undefined;
      if (answer.kind === "described") {
        this.#descriptions = new Map(answer.models.map((model) => [model.id, model]));
        this.#startedAtMs = answer.startedAtMs;
        this.#tell();
      }
      return answer;
    });
    return this.#describing;
  }

  /**
   * The time at which the node's process began to serve, in milliseconds of its wall clock, as it was last asked: another
   * one is another process, with an empty cache. 0 where the node does not say.
   */
  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  /** Whether an operator has drained the endpoint by hand. */
  get drained(): boolean {
    return this.#drained;
  }

  /** Drains the endpoint by hand, so that it gets no new calls, or ends that draining. */
  setDrained(drained: boolean): void {
    this.#drained = drained;
    this.#tell();
  }

  /**
   * Returns whether the endpoint gets no new calls because an operator has drained it or its node says that it drains.
   */
  isDraining(nowMs: number): boolean {
    return this.#drained || this.report.isDraining(nowMs);
  }

  /**
   * Calls the listener whenever something is known anew of the endpoint: its node's description or load report, or that
   * it is drained by hand. Returns the function that ends this.
   */
  onNews(listener: () => void): () => void {
    this.#newsListeners.add(listener);
    return () => this.#newsListeners.delete(listener);
  }

  /** Tells the health checks that the node has told a call that it must get no more. */
  failHealthNow(): void {
    for (const listener of this.#failNow) listener();
  }

  /** Calls the listener whenever `failHealthNow` is called. Returns the function that ends this. */
  onFailHealthNow(listener: () => void): () => void {
    this.#failNow.add(listener);
    return () => this.#failNow.delete(listener);
  }

  /** Counts one more call as running on the endpoint until the result is ended. */
  beginCall(): EndpointCall {
    this.#active += 1;
    let open = true;
    return {
      end: () => {
        if (!open) return;
        open = false;
        this.#active -= 1;
        if (this.#active === 0) this.#whenIdle?.();
      },
    };
  }

  /**
   * Calls `run` as soon as no call runs on the endpoint, perhaps at once. It takes the place of an earlier `run` that
   * was not called yet; undefined only takes that one back.
   */
  whenIdle(run: (() => void) | undefined): void {
    this.#whenIdle = run;
    if (this.#active === 0) run?.();
  }

  #tell(): void {
    for (const listener of this.#newsListeners) listener();
  }

  /** Closes the channel and the wire: no call can be made on them any more. */
  close(): void {
    this.wire.close();
    this.#client?.close();
  }
}
