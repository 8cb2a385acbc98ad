import {
  type Server as GrpcServer,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import type { Logger } from "pino";
import type { FollowedPems } from "../deploy/runtime/files/followed-file.ts";
import {
  closeServer,
  contractReflection,
  takesManyResets,
  wideConnections,
} from "../deploy/runtime/grpc/grpc-server.ts";
import { TlsCredentials } from "../deploy/runtime/grpc/server-tls.ts";
import type { FailedCall } from "../deploy/runtime/grpc/status-details.ts";
import { answerUnknownMethods, withStatusDetails } from "../deploy/runtime/grpc/status-details.ts";
import { type Clock, durationMs, systemClock } from "../deploy/runtime/time/clock.ts";
import {
  type CountTokensRequest,
  type CountTokensResponse,
  type GenerateRequest,
  type GenerateResponse,
  InferenceServiceService,
  type Usage,
} from "../proto/gen/svc/inference/v1/inference_service.ts";
import {
  Capability,
  type DescribeNodeResponse,
  type DrainNodeRequest,
  type DrainNodeResponse,
  type EndLeaseRequest,
  type EndLeaseResponse,
  NodeServiceService,
  type WatchPrefixesRequest,
  type WatchPrefixesResponse,
} from "../proto/gen/svc/inference/v1/node_service.ts";
import { OrcaLoadReport } from "../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { OpenRcaServiceService, type OrcaLoadReportRequest } from "../proto/gen/xds/service/orca/v3/orca.ts";
import type { Backend, BackendDescription } from "./backend.ts";
import type { CallerWork } from "./caller-work/caller-work.ts";
import { WORK } from "./caller-work/work-kinds.ts";
import { logGeneration, measureGeneration, verdictRecorder } from "./calls/call-log.ts";
import { CountPermits, countTokensCall } from "./calls/count-tokens-call.ts";
import { GenerationCall } from "./calls/generation-call.ts";
import { OpenCalls } from "./calls/open-calls.ts";
import { EngineError, toEngineError, toFailedCall } from "./errors.ts";
import {
  type ConnectionLimits,
  drainedByTrusted,
  explained,
  onlyCallersNamed,
  UNKNOWN_METHOD,
  withinLimits,
} from "./grpc/interceptors.ts";
import { loadReport, requestCost } from "./load/load-report.ts";
import { LoadStreams } from "./load/load-streams.ts";
import { Throughput } from "./load/throughput.ts";
import type { EngineMetrics } from "./metrics/engine-metrics.ts";
import { registerNodeGauges } from "./metrics/engine-metrics.ts";
import { type NodePhase, NodeState } from "./node/node-state.ts";
import { type Watchdog, watchNode } from "./node/watchdog.ts";
import { KnownPrompts } from "./prefixes/known-prompts.ts";
import { PrefixStreams } from "./prefixes/prefix-streams.ts";
import type { GenerationTracing } from "./tracing/generation-tracing.ts";

/** The largest message in either direction: a prompt of a million tokens is several MB. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** The time that the final messages of stopped calls have to be sent, in milliseconds. */
const LAST_WORDS_MS = 1000;
/** The time that a closing node gives sent bytes to arrive before it drops its connections, in milliseconds. */
const GOODBYE_MS = 250;

export type EngineServerOptions = {
  readonly nodeId: string;
  readonly nodeVersion: string;
  /** The ids of the models, known before the backend has loaded. */
  readonly models: readonly string[];
  /** The creator of the server starts and closes the backend and the worker threads. */
  readonly backend: Backend;
  readonly work: Pick<CallerWork, "run" | "moves">;
  readonly metrics: EngineMetrics;
  readonly log: Logger;
  readonly tls?: FollowedPems | undefined;
  /** The names of which a caller's certificate must carry one. Absent: every caller that `tls` accepts is served. */
  readonly allowedClientNames?: readonly string[] | undefined;
  /** Absent: only messages are limited. */
  readonly connection?: ConnectionLimits | undefined;
  /** The milliseconds without a step, while work runs, after which the node leaves service. Absent: no watchdog. */
  readonly maxStepAgeMs?: number;
  /** The milliseconds until a draining node ends generations that another can continue. Absent: as for all others. */
  readonly handoverGraceMs?: number;
  readonly reflection?: boolean;
  readonly tracing?: GenerationTracing | undefined;
  readonly clock?: Clock;
};

type LoadStream = ServerWritableStream<OrcaLoadReportRequest, OrcaLoadReport>;
type PrefixStream = ServerWritableStream<WatchPrefixesRequest, WatchPrefixesResponse>;
type GenerateStream = ServerWritableStream<GenerateRequest, GenerateResponse>;

function newServer({ allowedClientNames: names, connection, metrics }: EngineServerOptions): GrpcServer {
  return new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
    "grpc.enable_channelz": 0,
    // Keepalive detects a caller that vanished with its host or network, so that it does not hold its slots until its
    // deadline.
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
    ...(connection && { "grpc.max_concurrent_streams": connection.maxCalls }),
    interceptors: [
      wideConnections(),
      withStatusDetails(explained),
      ...(names ? [onlyCallersNamed(names)] : []),
      drainedByTrusted,
      ...(connection ? [withinLimits(connection, (limit) => metrics.callsRefused.inc({ limit }))] : []),
    ],
  });
}

/** Serves an engine node on gRPC: inference, node, health and load reports. */
export class EngineServer {
  readonly #options: EngineServerOptions;
  readonly #clock: Clock;
  readonly #server: GrpcServer;
  readonly #credentials: ServerCredentials;
  readonly #state: NodeState;
  readonly #throughput: Throughput;
  readonly #loadStreams: LoadStreams;
  readonly #prefixStreams: PrefixStreams | undefined;
  readonly #prompts: KnownPrompts;
  readonly #watchdog: Watchdog | undefined;
  readonly #closing = new AbortController();
  readonly #calls: OpenCalls;
  readonly #countPermits = new CountPermits();
  #bound: string | undefined;

  /** Creates a node in phase `loading` that does not listen yet. */
  constructor(options: EngineServerOptions) {
    const { backend, metrics, log, maxStepAgeMs, nodeId, nodeVersion, models, clock = systemClock } = options;
    this.#credentials = options.tls ? new TlsCredentials(options.tls) : ServerCredentials.createInsecure();
    this.#options = options;
    this.#clock = clock;
    this.#calls = new OpenCalls(clock);
    this.#throughput = new Throughput(() => clock.nowMs(), backend.prefillSpeed);
    this.#loadStreams = new LoadStreams(clock, (readers) => this.#report(readers));
    this.#prefixStreams = backend.prefixes && new PrefixStreams(backend.prefixes, clock);
    this.#prompts = new KnownPrompts(clock, backend.promptMegabytes ?? 0);
    backend.prefixes?.onVerdict(verdictRecorder(metrics, log));
    const health = new HealthImplementation();
    this.#state = new NodeState({ nodeId, nodeVersion, models, setHealth: (name, now) => health.setStatus(name, now) });
    if (maxStepAgeMs !== undefined) {
      this.#watchdog = watchNode({
        backend,
        models,
        clock,
        log,
        stallMs: maxStepAgeMs,
        state: this.#state,
        calls: this.#calls,
        onChange: () => this.#loadStreams.report(),
        signal: this.#closing.signal,
      });
    }
    metrics.startAtZero(models, Object.keys(WORK));
    registerNodeGauges(metrics, {
      load: () => backend.load(),
      rates: () => this.#throughput.rates(),
      running: () => this.#calls.running,
      pausedStreams: () => this.#calls.paused,
      stepAgeMs: () => this.#watchdog?.stepAgeMs ?? 0,
      promptBytes: () => this.#prompts.bytes,
      gpuMemoryBytes: async () => backend.gpuMemoryBytes?.(),
      engine: () => backend.describe().engineVersion,
    });
    this.#server = newServer(options);
    answerUnknownMethods(this.#server, UNKNOWN_METHOD);
    this.#addServices();
    takesManyResets(this.#server);
    health.addToServer(this.#server);
    if (options.reflection) contractReflection().addToServer(this.#server);
  }

  /** Resolves to the port; port 0 picks a free one. Rejects with ENGINE_DOWN if the address is in use. */
  listen(host: string, port: number): Promise<number> {
    const address = hostPort(host, port);
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, this.#credentials, (error, bound) => {
        if (error?.message.includes("EADDRINUSE"))
          return reject(new EngineError("ENGINE_DOWN", `the address ${address} is in use`, {}, error));
        if (error) return reject(error);
        this.#bound = address.replace(/\d+$/, String(bound));
        resolve(bound);
      });
    });
  }

  get phase(): NodePhase {
    return this.#state.now;
  }

  /** Whether running work has had no step for so long that only a restart helps; false while the engine starts. */
  get engineHung(): boolean {
    return this.#watchdog?.hung ?? false;
  }

  /** Puts the node into service; its backend has started. */
  serve(): void {
    this.#state.become("serving");
    this.#watchdog?.start();
  }

  /**
   * Stops accepting generations. Running ones continue for at most `timeoutMs` milliseconds if given, and those that
   * another node can continue for at most `graceMs`, by default the configured grace.
   */
  startDraining(timeoutMs?: number, graceMs = this.#options.handoverGraceMs): void {
    if (this.#state.become("draining")) {
      this.#options.log.info({ running: this.#calls.running }, "draining");
      this.#loadStreams.report();
      this.#prompts.clear();
    }
    if (timeoutMs !== undefined) this.#clock.after(timeoutMs, () => this.#calls.stopAll(stopped()));
    if (graceMs !== undefined) this.#clock.after(graceMs, () => this.#handOver());
  }

  /**
   * Drains the node, waits up to `timeoutMs` milliseconds for running generations, ends the rest with DRAINING and
   * closes all connections. Aborting `cutOff` ends the wait: the remaining generations then lose their connection
   * without a status.
   */
  async close(timeoutMs: number, cutOff: AbortSignal): Promise<void> {
    this.startDraining();
    await this.#calls.whenIdle(timeoutMs, cutOff);
    if (!cutOff.aborted) {
      this.#calls.stopAll(stopped());
      await this.#calls.whenIdle(LAST_WORDS_MS, cutOff);
    }
    this.#watchdog?.stop();
    this.#closing.abort();
    this.#loadStreams.close();
    this.#prefixStreams?.close();
    await closeServer(this.#server, this.#bound, cutOff.aborted ? 0 : GOODBYE_MS);
  }

  /** Ends the generations that another node can continue: their callers have all tokens that this takes. */
  #handOver(): void {
    const { models } = this.#options.backend.describe();
    const continued = models.filter(({ capabilities }) => capabilities.includes(Capability.CONTINUATION));
    const ids = new Set(continued.map(({ id }) => id));
    this.#calls.stopAll(
      new EngineError("DRAINING", "The node is leaving: another one can go on with the answer."),
      ({ resumable, model }) => resumable && ids.has(model),
    );
  }

  #addServices(): void {
    this.#server.addService(InferenceServiceService, {
      generate: (call: GenerateStream) => void this.#generate(call),
      countTokens: (
        call: ServerUnaryCall<CountTokensRequest, CountTokensResponse>,
        reply: sendUnaryData<CountTokensResponse>,
      ) => void this.#countTokens(call, reply),
    });
    this.#server.addService(NodeServiceService, {
      describeNode: (_call: unknown, reply: sendUnaryData<DescribeNodeResponse>) =>
        reply(null, this.#state.describe(this.#described())),
      drainNode: (
        { request }: ServerUnaryCall<DrainNodeRequest, DrainNodeResponse>,
        reply: sendUnaryData<DrainNodeResponse>,
      ) => {
        const { timeout, handoverGrace } = request;
        this.startDraining(timeout && durationMs(timeout), handoverGrace && durationMs(handoverGrace));
        reply(null, { runningRequests: this.#calls.running });
      },
      endLease: (
        { request }: ServerUnaryCall<EndLeaseRequest, EndLeaseResponse>,
        reply: sendUnaryData<EndLeaseResponse>,
      ) => {
        const digest = Buffer.from(request.digest).toString("latin1");
        this.#prompts.drop(digest);
        this.#options.backend.endLease?.(digest);
        reply(null, {});
      },
      watchPrefixes: (call: PrefixStream) => this.#watchPrefixes(call),
    });
    this.#server.addService(OpenRcaServiceService, {
      streamCoreMetrics: (call: LoadStream) => this.#streamLoad(call),
    });
  }

  /** Returns what the backend says of itself, with what the node does for every backend. */
  #described(): BackendDescription {
    const { backend } = this.#options;
    const described = backend.describe();
    if (!backend.promptMegabytes) return described;
    const added = [Capability.PROMPT_BASE];
    const models = described.models.map((model) => ({ ...model, capabilities: [...model.capabilities, ...added] }));
    return { ...described, models };
  }

  #report(readers: number): OrcaLoadReport {
    const load = this.#options.backend.load();
    return loadReport({ load, rates: this.#throughput.rates(), draining: this.#state.now === "draining", readers });
  }

  #streamLoad(call: LoadStream): void {
    call.on("cancelled", this.#loadStreams.open(call.request, sinkOf(call)));
  }

  #watchPrefixes(call: PrefixStream): void {
    const streams = this.#prefixStreams;
    const { backend } = this.#options;
    const { model } = call.request;
    const refuse = (error: EngineError) => call.emit("error", this.#failed(error));
    if (!streams || !backend.prefixes?.isAnnounced)
      return void refuse(new EngineError("UNIMPLEMENTED", "The node does not announce its prefixes."));
    if (!this.#options.models.includes(model)) {
      return void refuse(new EngineError("MODEL_NOT_SERVED", "The node does not serve this model."));
    }
    call.on("cancelled", streams.open(model, sinkOf(call)));
  }

  async #generate(call: GenerateStream): Promise<void> {
    const { backend, work, metrics, log, tracing } = this.#options;
    let { request } = call;
    try {
      // A node that takes no calls refuses for that, and keeps nothing.
      if (this.#state.now === "serving") request = this.#prompts.take(request);
    } catch (error) {
      call.emit("error", this.#failed(toEngineError(error)));
      return;
    }
    const generation = new GenerationCall({
      request,
      sink: {
        ...sinkOf(call),
        end: ({ usage }) => call.end(usage && costTrailer(usage)),
        // A cancelled call takes no status.
        fail: (error) => void (call.cancelled || call.emit("error", this.#failed(error))),
      },
      backend,
      work,
      clock: this.#clock,
      deadlineMs: Number(call.getDeadline()) - this.#clock.wallMs(),
      admit: (model) => this.#state.admit(model),
    });
    // Emitted at the end of every call: after a cancel, a broken connection, a deadline, and after the last byte.
    call.on("cancelled", () => {
      generation.leave();
      this.#calls.closed(generation);
    });
    this.#calls.begin(generation);
    const outcome = await generation.run();
    this.#calls.ended(generation);
    const facts = { ...outcome, requestId: request.requestId, model: this.#state.label(request.model) };
    this.#throughput.add(outcome.finished, outcome.failure, outcome.continuedTokens);
    measureGeneration(metrics, facts);
    logGeneration(log, facts);
    tracing?.generation(call.metadata.get("traceparent")[0], facts, this.#clock.wallMs());
  }

  async #countTokens(
    call: ServerUnaryCall<CountTokensRequest, CountTokensResponse>,
    reply: sendUnaryData<CountTokensResponse>,
  ): Promise<void> {
    const leave = new AbortController();
    call.on("cancelled", () => leave.abort(new EngineError("CANCELLED", "The caller has left.")));
    try {
      const parts = { ...this.#options, state: this.#state, permits: this.#countPermits };
      reply(null, { inputTokens: await countTokensCall(parts, call.request, leave.signal) });
    } catch (error) {
      reply(this.#failed(toEngineError(error)));
    }
  }

  /** Returns an error as a gRPC status. QUEUE_FULL carries an estimate of when a slot is free. */
  #failed(error: EngineError): FailedCall {
    if (error.reason !== "QUEUE_FULL") return toFailedCall(error);
    return toFailedCall(error, this.#throughput.nextEndMs(this.#options.backend.load().busySlots));
  }
}

/** Returns the writing side of a stream, whose `write` returns false when the reader falls behind. */
function sinkOf<Message>(call: ServerWritableStream<unknown, Message>) {
  return {
    write: (message: Message): boolean => call.write(message),
    onDrain: (listener: () => void) => void call.on("drain", listener),
    end: () => void call.end(),
  };
}

/** Returns the trailer with the cost of a whole answer, as ORCA (Open Request Cost Aggregation) defines it. */
function costTrailer(usage: Usage): Metadata {
  const trailer = new Metadata();
  trailer.set("endpoint-load-metrics-bin", Buffer.from(OrcaLoadReport.encode(requestCost(usage)).finish()));
  return trailer;
}

export function hostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function stopped(): EngineError {
  return new EngineError("DRAINING", "The node has stopped.");
}
