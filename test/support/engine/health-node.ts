import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import type { FailedCall } from "../../../engine/errors.ts";
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
import { OpenRcaServiceService } from "../../../proto/gen/xds/service/orca/v3/orca.ts";

type Watcher = ServerWritableStream<HealthCheckRequest, HealthCheckResponse>;

export type HealthNodeOptions = {
  /** Ids that it describes. */
  readonly models: readonly string[];
  readonly port?: number;
  /** Whether it has `Health.Watch`. Default true. */
  readonly watch?: boolean;
  /** Whether it speaks the contract at all. Default true. */
  readonly contract?: boolean;
};

/** A node over real gRPC whose every word about itself the test decides. It generates nothing. */
export class HealthNode {
  models: readonly string[];
  /** What it says about the health of every model; `tell` says it to the watchers, too. */
  serving: Serving = Serving.SERVING;
  /** Leaves calls of `Check` without an answer. */
  silent = false;
  /** Of every call of `Generate`, all of which fail. */
  trailers: Readonly<Record<string, string>> = {};
  /** In place of those: how every call of `Generate` fails. */
  refusal: FailedCall | undefined;
  generations = 0;
  checks = 0;
  watches = 0;
  descriptions = 0;
  /** Requests for load reports, which it does not have. */
  loadCalls = 0;
  readonly #server = new Server();
  readonly #watchers = new Set<Watcher>();
  #port = 0;

  private constructor({ models, watch = true, contract = true }: HealthNodeOptions) {
    this.models = models;
    this.#addHealth(watch);
    this.#server.addService(OpenRcaServiceService, {
      streamCoreMetrics: (call: ServerWritableStream<unknown, unknown>) => {
        this.loadCalls += 1;
        call.emit("error", { code: status.UNIMPLEMENTED, details: "not here" });
      },
    });
    if (contract) this.#addContract();
  }

  static async start(options: HealthNodeOptions): Promise<HealthNode> {
    const node = new HealthNode(options);
    await node.#listen(options.port ?? 0);
    return node;
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  tell(serving: Serving): void {
    this.serving = serving;
    for (const watcher of this.#watchers) watcher.write({ status: serving });
  }

  /** Breaks all watches off, and nothing else. */
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
        const models = this.models.map((id) => ModelDescription.fromPartial({ id, maxConcurrentRequests: 4 }));
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

  async #listen(port: number): Promise<void> {
    this.#port = await new Promise<number>((resolve, reject) =>
      this.#server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
  }
}
