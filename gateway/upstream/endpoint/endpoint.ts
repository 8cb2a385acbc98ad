import {
  type ChannelCredentials,
  Client,
  connectivityState,
  credentials,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import type { Pems } from "../../../deploy/runtime/files/followed-file.ts";
import { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { type ModelDescription, NodeServiceService } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { GenerateWire, WireKind } from "../wire/generate-wire.ts";
import { GrpcJsWire } from "../wire/grpc-js-wire.ts";
import { Http2Wire } from "../wire/http2-wire.ts";
import { LastReport } from "./load-reports.ts";

/** The size of the largest request message, in bytes. A prompt of a million tokens is several MB. */
const MAX_REQUEST_BYTES = 64 * 1024 * 1024;
/** The size of the largest reply message, in bytes, far above any single message of a stream. */
export const MAX_REPLY_BYTES = 8 * 1024 * 1024;

export type EndpointTls = {
  readonly credentials: ChannelCredentials;
  readonly pems: () => Pems;
  /** The name that the certificate of the endpoint must be for; undefined for the host of its address. */
  readonly serverName: string | undefined;
};

export type NodeAnswer =
  | {
      readonly kind: "described";
      readonly models: readonly ModelDescription[];
      /** Wall-clock milliseconds at which the node's process began to serve; 0 where not reported. */
      readonly startedAtMs: number;
      /** Its engine's version and setup, for people; empty where not reported. */
      readonly engine: string;
    }
  /** The node speaks gRPC, but not this contract. */
  | { readonly kind: "unknown_contract" }
  | { readonly kind: "unreachable"; readonly error: ServiceError };

/** One engine node, shared by all clusters that have its address: its channel, description, load and running calls. */
export class Endpoint {
  readonly address: string;
  readonly handOvers = new FairLane();
  readonly wire: GenerateWire;
  readonly #tls: EndpointTls | undefined;
  #client: Client | undefined;
  readonly #failNow = new Set<() => void>();
  readonly #newsListeners = new Set<() => void>();
  readonly #notify = (): void => {
    for (const listener of this.#newsListeners) listener();
  };
  readonly report = new LastReport(this.#notify);
  #descriptions: ReadonlyMap<string, ModelDescription> = new Map();
  #describing: Promise<NodeAnswer> | undefined;
  drained = false;
  #whenIdle: (() => void) | undefined;
  /** The running calls. Changed by the members of clusters only. */
  activeRequests = 0;
  /** When the node's process began to serve, in wall-clock milliseconds, or 0: another value, an empty cache. */
  startedAtMs = 0;
  engine = "";

  /** Connects to `host:port`, without `tls` in plain text; `clock` measures deadlines. */
  constructor(address: string, tls?: EndpointTls, wire: WireKind = "fast", clock: Clock = systemClock) {
    this.address = address;
    this.#tls = tls;
    this.wire =
      wire === "fast"
        ? new Http2Wire({ address, tls, maxMessageBytes: MAX_REPLY_BYTES, clock })
        : new GrpcJsWire(() => this.client);
  }

  /** The gRPC client on the endpoint's one channel, for calls of all models, created at its first use. */
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
      // The router retries: grpc-js would keep a copy of every prompt for retries, and commits at other moments.
      "grpc.enable_retries": 0,
      // Only a call that buffers nothing for its own retries reports when its message has been written.
      "grpc.per_rpc_retry_buffer_size": 0,
      "grpc.enable_channelz": 0,
      // Nodes are connected directly, as by the other wire: a proxy in the environment is for external hosts.
      "grpc.enable_http_proxy": 0,
      // Also ends a connection that sends malformed data: Node stops reading it without an event, so that its calls
      // hang until the next ping fails, or their idle limit.
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.keepalive_permit_without_calls": 1,
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 2_000,
      // Each endpoint has its own channel, as load is counted per endpoint.
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  /** Whether the channel to the endpoint is established, with TLS and HTTP/2 settings exchanged. */
  get connected(): boolean {
    return this.#client?.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  /** Returns the node's newest description of a model; undefined when it included no such model. */
  description(model: string): ModelDescription | undefined {
    return this.#descriptions.get(model);
  }

  /** Requests the node's description, until `deadline` in wall-clock milliseconds. Concurrent callers share a call. */
  describe(deadline: number): Promise<NodeAnswer> {
    this.#describing ??= this.#askDescription(deadline).then((answer) => {
      this.#describing = undefined;
      if (answer.kind === "described") {
        this.#descriptions = new Map(answer.models.map((model) => [model.id, model]));
        this.startedAtMs = answer.startedAtMs;
        this.engine = answer.engine;
        this.#notify();
      }
      return answer;
    });
    return this.#describing;
  }

  #askDescription(deadline: number): Promise<NodeAnswer> {
    const { path, requestSerialize, responseDeserialize } = NodeServiceService.describeNode;
    return new Promise((resolve) => {
      this.client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, { deadline }, (error, reply) => {
        if (reply) {
          const { models, startedAt, engineVersion: engine } = reply;
          resolve({ kind: "described", models, startedAtMs: startedAt?.getTime() ?? 0, engine });
        } else if (error?.code === status.UNIMPLEMENTED) resolve({ kind: "unknown_contract" });
        else resolve({ kind: "unreachable", error: error as ServiceError });
      });
    });
  }

  /** Ends the lease of a prompt on the node. Nothing depends on it: an older node refuses, and leases end in time. */
  endLease(digest: Buffer, deadline: number): void {
    const { path, requestSerialize, responseDeserialize } = NodeServiceService.endLease;
    this.client.makeUnaryRequest(path, requestSerialize, responseDeserialize, { digest }, { deadline }, () => {});
  }

  setDrained(drained: boolean): void {
    this.drained = drained;
    this.#notify();
  }

  /** Returns whether an operator drained the endpoint or its node reports that it drains: it gets no new calls. */
  isDraining(nowMs: number): boolean {
    return this.drained || this.report.isDraining(nowMs);
  }

  /** Calls the listener after every change of description, load report or manual drain. Returns the function that ends this. */
  onNews(listener: () => void): () => void {
    this.#newsListeners.add(listener);
    return () => this.#newsListeners.delete(listener);
  }

  /** Fails the node's health checks: it ended a call with the request to get no more. */
  failHealthNow(): void {
    for (const listener of this.#failNow) listener();
  }

  /** Calls the listener whenever `failHealthNow` is called. Returns the function that ends this. */
  onFailHealthNow(listener: () => void): () => void {
    this.#failNow.add(listener);
    return () => this.#failNow.delete(listener);
  }

  callEnded(): void {
    this.activeRequests -= 1;
    if (this.activeRequests === 0) this.#whenIdle?.();
  }

  /** Calls `run` as soon as no call runs on the endpoint, perhaps at once. It replaces an earlier `run`; undefined cancels it. */
  whenIdle(run: (() => void) | undefined): void {
    this.#whenIdle = run;
    if (this.activeRequests === 0) run?.();
  }

  close(): void {
    this.wire.close();
    this.#client?.close();
  }
}
