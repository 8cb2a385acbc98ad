import type { Server as NetServer } from "node:net";
import { Server as GrpcServer, ServerCredentials, type sendUnaryData, status } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import type { FollowedPems } from "../../deploy/runtime/files/followed-file.ts";
import { closeServer, contractReflection, takesManyResets } from "../../deploy/runtime/grpc/grpc-server.ts";
import { TlsCredentials } from "../../deploy/runtime/grpc/server-tls.ts";
import { answerUnknownMethods } from "../../deploy/runtime/grpc/status-details.ts";
import { InferenceServiceService } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GatewayConfig } from "../config.ts";
import { type CapSinks, capConnections } from "../http/connection/connection-cap.ts";
import { type CountCall, countTokens, type GenerateStream, generate, type InferenceDeps } from "./inference-methods.ts";
import { failedRpc, raisedError } from "./rpc-call.ts";
import { type InterceptorParts, RpcInterceptor } from "./rpc-interceptor.ts";

/** The only service of the contract for callers; the others are for gateways and nodes. */
const SERVICE = "svc.inference.v1.InferenceService";

const MAX_CONNECTIONS = 1_024;
/** The most open calls of one connection; its HTTP/2 client delays further ones. */
const MAX_STREAMS = 1_024;

export type GrpcListenerDeps = InterceptorParts &
  InferenceDeps & {
    readonly settings: NonNullable<GatewayConfig["grpc"]>;
    /** The certificates, which the listener closes; undefined for plain text. */
    readonly tls: FollowedPems | undefined;
    readonly cap: CapSinks;
    /** The most connections of the public listener; this one has as many, but at most 1,024. */
    readonly mostConnections: number;
  };

/** grpc-js passes messages as bytes: the method decodes them, on a thread if they are large. */
const asBytes = (bytes: Buffer) => bytes;

/** Serves the contract's InferenceService to gRPC clients, behind the checks and the router of the public API. */
export class GrpcListener {
  readonly #server: GrpcServer;
  readonly #health = new HealthImplementation();
  readonly #interceptor: RpcInterceptor;
  readonly #deps: GrpcListenerDeps;
  #bound: string | undefined;

  constructor(deps: GrpcListenerDeps) {
    this.#deps = deps;
    const { settings, bodies } = deps;
    this.#interceptor = new RpcInterceptor(deps);
    this.#server = new GrpcServer({
      "grpc.max_receive_message_length": bodies.maxBodyBytes,
      "grpc.max_send_message_length": -1,
      "grpc.enable_channelz": 0,
      "grpc.max_concurrent_streams": MAX_STREAMS,
      // A caller that is lost without a close, with its host or the network, must not occupy its answers until their
      // end.
      "grpc.keepalive_time_ms": 20_000,
      "grpc.keepalive_timeout_ms": 10_000,
      interceptors: [this.#interceptor.interceptor],
    });
    takesManyResets(this.#server);
    answerUnknownMethods(this.#server, failedRpc(raisedError({ code: status.UNIMPLEMENTED, details: "" })));
    this.#addServices();
    this.#health.addToServer(this.#server);
    // Reflection describes this service only.
    if (settings.reflection) contractReflection([SERVICE]).addToServer(this.#server);
  }

  /** Listens on the configured address. Resolves to `host:port`. Rejects if the address is in use. */
  listen(): Promise<string> {
    const { settings, tls, cap, mostConnections } = this.#deps;
    const { host, port } = settings;
    const address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    const credentials = tls ? new TlsCredentials(tls) : ServerCredentials.createInsecure();
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, credentials, (error, bound) => {
        if (error) return reject(error);
        for (const server of serversOf(this.#server))
          capConnections(server, Math.min(MAX_CONNECTIONS, mostConnections), cap);
        this.#bound = address.replace(/\d+$/, String(bound));
        this.#setHealth("SERVING");
        resolve(this.#bound);
      });
    });
  }

  /** Reports NOT_SERVING in health checks; calls are still accepted. */
  announceDrain(): void {
    this.#setHealth("NOT_SERVING");
  }

  /** Accepts no new connections, and no new calls on open ones. Resolves when the last call has ended. */
  drain(): Promise<void> {
    this.#server.tryShutdown(() => {});
    return this.#interceptor.idle();
  }

  /** Closes all connections at once, and stops following certificate files. */
  async close(): Promise<void> {
    this.#deps.tls?.close();
    await closeServer(this.#server, this.#bound, 0);
  }

  #setHealth(now: "SERVING" | "NOT_SERVING"): void {
    for (const name of ["", SERVICE]) this.#health.setStatus(name, now);
  }

  #addServices(): void {
    const { generate: ofGenerate, countTokens: ofCount } = InferenceServiceService;
    const inBytes = {
      ...{ requestSerialize: asBytes, requestDeserialize: asBytes },
      ...{ responseSerialize: asBytes, responseDeserialize: asBytes },
    };
    this.#server.addService(
      { generate: { ...ofGenerate, ...inBytes }, countTokens: { ...ofCount, ...inBytes } },
      {
        generate: (call: GenerateStream) => void generate(this.#interceptor.callOf(call.metadata), call, this.#deps),
        countTokens: (call: CountCall, reply: sendUnaryData<Buffer>) =>
          void countTokens(this.#interceptor.callOf(call.metadata), call, reply, this.#deps),
      },
    );
  }
}

/** Returns the HTTP/2 servers of a grpc-js server, which has no public API for them; empty if there are none. */
function serversOf(server: GrpcServer): readonly NetServer[] {
  const servers: unknown = Reflect.get(server, "http2Servers");
  return servers instanceof Map ? [...servers.keys()] : [];
}
