import { pino } from "pino";
import { startTracing } from "../../../engine/tracing/generation-tracing.ts";
import { type Script, ScriptedBackend } from "../engine/scripted-backend.ts";
import { type RunningNode, startNode } from "../engine/start-node.ts";
import { preferred } from "../preferred.ts";
import { until } from "../until.ts";
import { type CollectedSpan, OtlpCollector } from "./otlp-collector.ts";
import { type RunningGateway, startGateway } from "./start-gateway.ts";

// Spans are exported at once, in milliseconds.
process.env.OTEL_BSP_SCHEDULE_DELAY = "10";
process.env.OTEL_EXPORTER_OTLP_TIMEOUT = "1000";

export class TracedService {
  readonly collector: OtlpCollector;
  readonly gateway: RunningGateway;
  readonly nodes: readonly RunningNode[];
  readonly #closings: (() => Promise<void>)[];

  private constructor(
    collector: OtlpCollector,
    gateway: RunningGateway,
    nodes: readonly RunningNode[],
    closings: (() => Promise<void>)[],
  ) {
    this.collector = collector;
    this.gateway = gateway;
    this.nodes = nodes;
    this.#closings = closings;
  }

  /** Earlier nodes are preferred. */
  static async start(samplingRatio: number, ...scripts: readonly Script[]): Promise<TracedService> {
    const collector = await OtlpCollector.start();
    const tracing = { otlpEndpoint: `${collector.url}/`, samplingRatio };
    const closings: (() => Promise<void>)[] = [];
    const starting = scripts.map(async (script, index) => {
      const nodeId = `node-${index}`;
      const backend = new ScriptedBackend({ nodeId, models: ["svc-qwen"], slots: 100, script });
      const log = pino({ level: "silent" });
      const traced = startTracing(tracing, nodeId, log, () => performance.now());
      const node = await startNode(backend, { nodeId, tracing: traced });
      closings.push(() => node.stop().then(() => traced.close()));
      return node;
    });
    const nodes = await Promise.all(starting);
    const addresses = nodes.map(({ address }) => address);
    const clusters = [{ model: "svc-qwen", ...preferred(addresses) }];
    const gateway = await startGateway(addresses, { tracing, clusters });
    return new TracedService(collector, gateway, nodes, closings);
  }

  async traceOf(response: Response): Promise<{ readonly traceId: string; readonly spanId: string }> {
    const id = response.headers.get("x-request-id");
    const line = () => this.gateway.log.find((each) => each.includes(`"request_id":"${id}"`));
    await until(() => line() !== undefined, "the request is logged");
    const { trace_id: traceId, span_id: spanId } = JSON.parse(line() ?? "");
    return { traceId, spanId };
  }

  async spans(traceId: string, count: number): Promise<CollectedSpan[]> {
    await until(() => this.collector.trace(traceId).length >= count, `${count} spans are collected`);
    return this.collector.trace(traceId);
  }

  async stop(): Promise<void> {
    await this.gateway.stop();
    for (const close of this.#closings) await close();
    await this.collector.stop();
  }
}
