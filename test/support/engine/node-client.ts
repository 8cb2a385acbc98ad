import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
  type StatusObject,
} from "@grpc/grpc-js";
import { EventOrder } from "../../../gateway/upstream/call/event-order.ts";
import { ErrorInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import {
  type CountTokensRequest,
  type CountTokensResponse,
  type Event,
  type GenerateRequest,
  type GenerateResponse,
  InferenceServiceService,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  type DescribeNodeResponse,
  type DrainNodeResponse,
  NodeServiceService,
  type WatchPrefixesResponse,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { OpenRcaServiceService } from "../../../proto/gen/xds/service/orca/v3/orca.ts";

export type Reading = ReturnType<typeof read>;
export type Ended = Awaited<Reading["ended"]>;
export type WatchedPrefixes = ReturnType<NodeClient["watchPrefixes"]>;

export class NodeClient {
  readonly #client: Client;
  readonly #metadata = new Metadata();

  /** Creates a client whose calls all carry `headers`; none by default. */
  constructor(
    address: string,
    channel: ChannelCredentials = credentials.createInsecure(),
    headers: Readonly<Record<string, string>> = {},
  ) {
    for (const [name, value] of Object.entries(headers)) this.#metadata.set(name, value);
    this.#client = new Client(address, channel, { "grpc.use_local_subchannel_pool": 1 });
  }

  generate(request: GenerateRequest, options: CallOptions = {}): Reading {
    const { path, requestSerialize, responseDeserialize } = InferenceServiceService.generate;
    const metadata = this.#metadata;
    return read(
      this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata, options),
    );
  }

  countTokens(request: CountTokensRequest): Promise<CountTokensResponse> {
    return this.#unary(InferenceServiceService.countTokens, request);
  }

  describe(): Promise<DescribeNodeResponse> {
    return this.#unary(NodeServiceService.describeNode, {});
  }

  /** Without a timeout running generations are not limited; without a grace, the node's own counts. */
  drain(timeoutSeconds?: number, graceSeconds?: number): Promise<DrainNodeResponse> {
    const duration = (seconds: number | undefined) => (seconds === undefined ? undefined : { seconds, nanos: 0 });
    const request = { timeout: duration(timeoutSeconds), handoverGrace: duration(graceSeconds) };
    return this.#unary(NodeServiceService.drainNode, request);
  }

  watchPrefixes(model: string) {
    const { path, requestSerialize, responseDeserialize } = NodeServiceService.watchPrefixes;
    const call = this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { model });
    /** The currently held prefixes, by digest in hex. */
    const held = new Map<string, { readonly tokens: number; readonly tailTokens: number }>();
    /** `kv` has the KV tokens of the last message. */
    const watched = { call, held, kv: { used: 0, total: 0 }, resets: 0 };
    call.on("data", (message: WatchPrefixesResponse) => {
      if (message.reset) {
        watched.resets += 1;
        held.clear();
      }
      for (const { digest, tokens, tailTokens } of message.held)
        held.set(digest.toString("hex"), { tokens, tailTokens });
      const dropped = message.dropped.toString("hex");
      for (let at = 0; at < dropped.length; at += 32) held.delete(dropped.slice(at, at + 32));
      watched.kv = { used: message.kvTokensUsed, total: message.kvTokensTotal };
    });
    call.on("error", () => {});
    return Object.assign(watched, { ended: new Promise<StatusObject>((resolve) => call.on("status", resolve)) });
  }

  loadReports(intervalSeconds: number): ClientReadableStream<OrcaLoadReport> {
    const { path, requestSerialize, responseDeserialize } = OpenRcaServiceService.streamCoreMetrics;
    const reportInterval = { seconds: intervalSeconds, nanos: 0 };
    const request = { reportInterval, requestCostNames: [] };
    return this.#client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
  }

  close(): void {
    this.#client.close();
  }

  #unary<Request, Reply>(
    method: {
      readonly path: string;
      readonly requestSerialize: (value: Request) => Buffer;
      readonly responseDeserialize: (bytes: Buffer) => Reply;
    },
    request: Request,
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const { path, requestSerialize, responseDeserialize } = method;
      const metadata = this.#metadata;
      this.#client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, (error, reply) => {
        if (error || reply === undefined) reject(error);
        else resolve(reply);
      });
    });
  }
}

export function errorInfo({ metadata }: Pick<ServiceError, "metadata">): ErrorInfo | undefined {
  const [packed] = metadata.get("grpc-status-details-bin");
  if (!Buffer.isBuffer(packed)) return undefined;
  const found = Status.decode(packed).details.find(({ typeUrl }) => typeUrl.endsWith("/google.rpc.ErrorInfo"));
  return found && ErrorInfo.decode(found.value);
}

function read(call: ClientReadableStream<GenerateResponse>) {
  const messages: (readonly Event[])[] = [];
  const events: Event[] = [];
  const tokens: number[] = [];
  const order = new EventOrder();
  let legal = true;
  let look = () => {};
  call.on("data", (message: GenerateResponse) => {
    messages.push(message.events);
    tokens.push(...message.tokens);
    for (const event of message.events) {
      events.push(event);
      legal &&= order.allows(event);
    }
    look();
  });
  // The status has the error; without a listener it would be thrown.
  call.on("error", () => {});
  type End = Pick<StatusObject, "code" | "details" | "metadata"> & { readonly info: ErrorInfo | undefined };
  const ended = new Promise<End>((resolve) => {
    call.on("status", (status: StatusObject) => {
      const { code, details, metadata } = status;
      const settle = () => resolve({ code, details, metadata, info: errorInfo({ metadata }) });
      // A slow reader gets the status before it has read everything.
      if (code === 0 && !call.readableEnded) call.on("end", settle);
      else settle();
    });
  });
  return {
    call,
    messages,
    events,
    tokens,
    legal: () => legal,
    finished: () => order.finished,
    ended,
    seen: (kind: string) =>
      new Promise<void>((resolve) => {
        look = () => {
          if (events.some((event) => event.kind?.$case === kind)) resolve();
        };
        look();
      }),
  };
}
