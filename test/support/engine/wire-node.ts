import { once } from "node:events";
import { createServer, type Http2Server, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { status } from "@grpc/grpc-js";
import { ErrorInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { HealthCheckResponse, HealthCheckResponse_ServingStatus } from "../../../proto/gen/grpc/health/v1/health.ts";
import {
  CountTokensResponse,
  type Event,
  GenerateRequest,
  GenerateResponse,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { DescribeNodeResponse, ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { framed } from "./raw-generate.ts";

/** The bytes that are written at a time. */
const PIECE = 64 * 1024;

/** A constant: the header of another second would be a new one for the reader's table of headers. */
const DATE = new Date(0).toUTCString();

/** A Generate call on its node, answered byte by byte. */
export class WireCall {
  readonly request: GenerateRequest;
  readonly stream: ServerHttp2Stream;
  readonly closed: Promise<void>;
  #code: number = status.OK;
  #details: Uint8Array | undefined;

  constructor(request: GenerateRequest, stream: ServerHttp2Stream) {
    this.request = request;
    this.stream = stream;
    this.closed = new Promise((resolve) => stream.once("close", () => resolve()));
    stream.on("wantTrailers", () => {
      const details = this.#details && { "grpc-status-details-bin": Buffer.from(this.#details).toString("base64") };
      stream.sendTrailers({ "grpc-status": String(this.#code), ...details });
    });
  }

  send(...events: readonly Event[]): void {
    this.sendTokens([], ...events);
  }

  sendTokens(tokens: readonly number[], ...events: readonly Event[]): void {
    this.stream.write(framed(GenerateResponse.encode({ events: [...events], tokens: [...tokens] }).finish()));
  }

  /** Resolves once all sent bytes have arrived: a reset loses those in transit. */
  delivered(): Promise<void> {
    return new Promise((resolve) => this.stream.write("", () => this.stream.session?.ping(() => resolve())));
  }

  async bytes(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length && !this.stream.closed; at += PIECE) {
      if (!this.stream.write(bytes.subarray(at, at + PIECE)))
        await Promise.race([once(this.stream, "drain"), this.closed]);
    }
  }

  /** Ends the call; `reason` is that of the contract's ErrorInfo. */
  end(code: status = status.OK, reason?: string): void {
    this.#code = code;
    if (reason) {
      const info = ErrorInfo.encode({ reason, domain: "svc.inference", metadata: {} }).finish();
      const value = { typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: Buffer.from(info) };
      this.#details = Status.encode({ code, message: "", details: [value] }).finish();
    }
    this.stream.end();
  }
}

export type WireNodeOptions = {
  readonly models: readonly string[];
  readonly play: (call: WireCall) => void | Promise<void>;
  /** Bytes appended to every message about the node: fields that are not defined yet. */
  readonly unknownFields?: Uint8Array;
  readonly describe?: Partial<ModelDescription>;
};

/** A node on bare HTTP/2 that is healthy, describes itself, and answers with arbitrary bytes. */
export class WireNode {
  readonly #server: Http2Server;
  readonly #options: WireNodeOptions;
  readonly #sockets = new Set<Socket>();
  /** The calls of Generate so far, newest last. */
  readonly calls: WireCall[] = [];
  readonly headers: IncomingHttpHeaders[] = [];

  private constructor(options: WireNodeOptions) {
    this.#options = options;
    this.#server = createServer();
    // A dead process sends nothing more, but a destroyed session would still end its streams.
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("stream", (stream, headers) => {
      this.headers.push(headers);
      // A caller may leave in the middle of its request.
      this.#answer(stream, String(headers[":path"])).catch(() => {});
    });
  }

  static async start(options: WireNodeOptions): Promise<WireNode> {
    const node = new WireNode(options);
    await new Promise<void>((resolve) => node.#server.listen(0, "127.0.0.1", resolve));
    return node;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Breaks all connections and accepts new ones, like a process that dies and is restarted at once. */
  crash(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  stop(): void {
    this.crash();
    this.#server.close();
  }

  async #answer(stream: ServerHttp2Stream, path: string): Promise<void> {
    stream.on("error", () => {});
    const pieces: Buffer[] = [];
    for await (const piece of stream) pieces.push(piece as Buffer);
    if (stream.destroyed) return;
    const headers = { ":status": 200, "content-type": "application/grpc", date: DATE };
    stream.respond(headers, { waitForTrailers: true });
    const method = path.split("/").at(-1);
    if (method === "Generate") {
      const call = new WireCall(GenerateRequest.decode(Buffer.concat(pieces).subarray(5)), stream);
      this.calls.push(call);
      await this.#options.play(call);
      return;
    }
    const own = this.#about(method);
    stream.on("wantTrailers", () =>
      stream.sendTrailers({ "grpc-status": String(own ? status.OK : status.UNIMPLEMENTED) }),
    );
    if (own) stream.write(framed(Buffer.concat([own, this.#options.unknownFields ?? new Uint8Array()])));
    if (method !== "Watch") stream.end();
  }

  #about(method: string | undefined): Uint8Array | undefined {
    const { models, describe } = this.#options;
    if (method === "Watch" || method === "Check")
      return HealthCheckResponse.encode({ status: HealthCheckResponse_ServingStatus.SERVING }).finish();
    if (method === "CountTokens") return CountTokensResponse.encode({ inputTokens: 3 }).finish();
    if (method !== "DescribeNode") return undefined;
    const described = models.map((id) => ({
      ...ModelDescription.fromPartial({ id, maxConcurrentRequests: 64 }),
      ...describe,
    }));
    const node = DescribeNodeResponse.fromPartial({ nodeId: "wire" });
    return DescribeNodeResponse.encode({ ...node, models: described }).finish();
  }
}
