import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import type { FailedCall } from "../../../deploy/runtime/grpc/status-details.ts";
import { durationMs } from "../../../deploy/runtime/time/clock.ts";
import {
  type HealthCheckRequest,
  type HealthCheckResponse,
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../../proto/gen/grpc/health/v1/health.ts";
import { InferenceServiceService } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  DescribeNodeResponse,
  ModelDescription,
  NodeServiceService,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { OpenRcaServiceService, type OrcaLoadReportRequest } from "../../../proto/gen/xds/service/orca/v3/orca.ts";
import { freePort } from "../free-port.ts";

type Watcher = ServerWritableStream<HealthCheckRequest, HealthCheckResponse>;

export type HealthNodeOptions = {
  readonly models: readonly string[];
  /** The host to listen on. Default: 127.0.0.1; 0.0.0.0 makes the node reachable under every loopback address. */
  readonly host?: string;
  readonly port?: number;
  readonly watch?: boolean;
  readonly contract?: boolean;
};

/** A node over real gRPC whose state is under the test's control. It generates nothing. */
export class HealthNode {
  models: readonly string[];
  /** The health of every model, for calls of `Check`. */
  serving: Serving = Serving.SERVING;
  /** Whether calls of `Check` get no answer. */
  silent = false;
  trailers: Readonly<Record<string, string>> = {};
  refusal: FailedCall | undefined;
  /** The data-parallel ranks of every model. */
  dataParallelRanks = 0;
  generations = 0;
  checks = 0;
  watches = 0;
  descriptions = 0;
  /** The requested intervals of load reports, which the node does not serve, in milliseconds. */
  readonly loadIntervalsMs: number[] = [];
  readonly #server = new Server();
  readonly #watchers = new Set<Watcher>();
  #port = 0;

  private constructor({ models, watch = true, contract = true }: HealthNodeOptions) {
    this.models = models;
    this.#addHealth(watch);
    this.#server.addService(OpenRcaServiceService, {
      streamCoreMetrics: (call: ServerWritableStream<OrcaLoadReportRequest, unknown>) => {
        this.loadIntervalsMs.push(durationMs(call.request.reportInterval ?? { seconds: 0, nanos: 0 }));
        call.emit("error", { code: status.UNIMPLEMENTED, details: "not here" });
      },
    });
    if (contract) this.#addContract();
  }

  static async start(options: HealthNodeOptions): Promise<HealthNode> {
    const node = new HealthNode(options);
    await node.#listen(options.host ?? "127.0.0.1", options.port ?? (await freePort()));
    return node;
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  setStatus(serving: Serving): void {
    this.serving = serving;
    for (const watcher of this.#watchers) watcher.write({ status: serving });
  }

  breakWatches(): void {
    for (const watcher of [...this.#watchers]) watcher.emit("error", { code: status.UNAVAILABLE, details: "broken" });
    this.#watchers.clear();
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  #addHealth(watch: boolean): void {
    const { check } = HealthService;
    this.#server.addService(watch ? { check, watch: HealthService.watch } : { check }, {
      check: (_call: unknown, reply: sendUnaryData<HealthCheckResponse>) => {
        this.checks += 1;
        if (!this.silent) reply(null, { status: this.serving });
      },
      watch: (call: Watcher) => {
        this.watches += 1;
        this.#watchers.add(call);
        call.on("cancelled", () => this.#watchers.delete(call));
        call.write({ status: this.serving });
      },
    });
  }

  #addContract(): void {
    this.#server.addService(NodeServiceService, {
      describeNode: (_call: unknown, reply: sendUnaryData<DescribeNodeResponse>) => {
        this.descriptions += 1;
        const { dataParallelRanks } = this;
        const described = { maxConcurrentRequests: 4, dataParallelRanks };
        const models = this.models.map((id) => ModelDescription.fromPartial({ id, ...described }));
        reply(null, { ...DescribeNodeResponse.fromPartial({ nodeId: "n1" }), models });
      },
    });
    this.#server.addService(InferenceServiceService, {
      generate: (call: ServerWritableStream<unknown, unknown>) => {
        this.generations += 1;
        const metadata = new Metadata();
        for (const [name, value] of Object.entries(this.trailers)) metadata.set(name, value);
        call.emit("error", this.refusal ?? { code: status.UNAVAILABLE, details: "not now", metadata });
      },
    });
  }

  async #listen(host: string, port: number): Promise<void> {
    this.#port = await new Promise<number>((resolve, reject) =>
      this.#server.bindAsync(`${host}:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
  }
}
