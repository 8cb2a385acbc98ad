import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { loadSync, type ServiceDefinition } from "@grpc/proto-loader";

export type CollectedSpan = ReturnType<typeof decodeSpans>[number];

export class OtlpCollector {
  readonly url: string;
  readonly spans: CollectedSpan[] = [];
  readonly bodies: Buffer[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("request", async (request: IncomingMessage, response) => {
      if (request.method !== "POST" || request.url !== "/v1/traces") {
        response.writeHead(404).end();
        return;
      }
      const body = await buffer(request);
      this.bodies.push(body);
      this.spans.push(...decodeSpans(body));
      response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
    });
  }

  static async start(): Promise<OtlpCollector> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new OtlpCollector(server);
  }

  trace(traceId: string): CollectedSpan[] {
    const of = this.spans.filter((span) => span.traceId === traceId);
    return of.sort((one, other) => Number(one.startNanos - other.startNanos));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

type Value = { readonly value: string; readonly [kind: string]: unknown };
type Attributes = readonly { readonly key: string; readonly value: Value }[];
type WireSpan = {
  readonly traceId: Buffer;
  readonly spanId: Buffer;
  readonly parentSpanId: Buffer;
  readonly name: string;
  readonly kind: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string }[];
  readonly status: { readonly code: string } | null;
};
type WireRequest = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
};

const loaded = loadSync(join(import.meta.dirname, "otlp-trace.proto"), {
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const service = loaded["opentelemetry.proto.collector.trace.v1.TraceService"] as ServiceDefinition;

function decodeSpans(body: Buffer) {
  const request = service.Export?.requestDeserialize(body) as WireRequest;
  return request.resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const about = readAttributes(resource.attributes);
    return scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        service: about["service.name"],
        resource: about,
        traceId: span.traceId.toString("hex"),
        spanId: span.spanId.toString("hex"),
        /** Empty for the root span of a trace. */
        parentSpanId: span.parentSpanId.toString("hex"),
        name: span.name,
        kind: span.kind,
        /** For example `STATUS_CODE_ERROR`. */
        status: span.status?.code ?? "UNSET",
        attributes: readAttributes(span.attributes),
        events: span.events.map(({ name }) => name),
        /** Nanoseconds since the epoch, as `endNanos`. */
        startNanos: BigInt(span.startTimeUnixNano),
        endNanos: BigInt(span.endTimeUnixNano),
      })),
    );
  });
}

function readAttributes(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]));
}

function readValue(value: Value): unknown {
  const found = value[value.value];
  if (value.value === "intValue") return Number(found);
  return value.value === "arrayValue" ? (found as { values: readonly Value[] }).values.map(readValue) : found;
}
