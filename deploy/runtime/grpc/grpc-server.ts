import { readFileSync } from "node:fs";
import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type { Server, ServerInterceptingCall, ServerInterceptingCallInterface, ServerInterceptor } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";
import { projectFolder } from "../files/project-folder.ts";

/** Returns the HTTP/2 stream of a call, for which grpc-js has no public API; undefined if there is none. */
export function streamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  const stream: unknown = Reflect.get(call, "stream");
  return stream !== null && typeof stream === "object" && "session" in stream
    ? (stream as ServerHttp2Stream)
    : undefined;
}

/** Flow-control window of a connection, all its calls together; a single call has 64 KiB. */
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Returns an interceptor that widens the flow-control window of each connection at its first call. By default a
 * connection's window equals that of a stream, and grpc-js servers have no setting for it: one large upload uses all of
 * it, and since Node 24 other streams are blocked until it is complete.
 */
export function wideConnections(): ServerInterceptor {
  const wide = new WeakSet<Http2Session>();
  return (_method, call) => {
    const session = streamOf(call)?.session;
    if (session && !session.destroyed && !wide.has(session)) {
      wide.add(session);
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    }
    return call as ServerInterceptingCall;
  };
}

/**
 * Allowed stream resets of a connection: burst, and rate per second. A Node server allows 1,000 and 33 a second by
 * default, and closes a connection with more, including all its calls. A call that is reset costs some 0.1 ms, so a
 * connection of nothing but resets takes at most a tenth of the event loop.
 */
const MANY_RESETS = { streamResetBurst: 10_000, streamResetRate: 1_000 } as const;

/**
 * Raises the limit of stream resets of a server, if Node supports it (from version 22 on; an older server keeps its
 * limit). Connections from gateways and edge proxies carry the calls of many callers, and a caller who cancels many
 * calls must not end those of the others. grpc-js has no setting for it. To be called before the server listens.
 */
export function takesManyResets(server: Server): void {
  const options: unknown = Reflect.get(server, "commonServerOptions");
  if (options !== null && typeof options === "object") Object.assign(options, MANY_RESETS);
}

/** Milliseconds for a connection that has not completed its HTTP/2 handshake. */
const SILENT_MS = 250;

/**
 * Closes a server: waits `graceMs` milliseconds for sent bytes to arrive, then closes the remaining connections,
 * because health watches and idle connections do not end. `address` is the address of the server, undefined if it does
 * not listen. Never rejects. The connections are closed with the drain of grpc-js, because its forceShutdown closes
 * none without channelz.
 */
export async function closeServer(server: Server, address: string | undefined, graceMs: number): Promise<void> {
  if (address !== undefined) server.drain(address, graceMs);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, graceMs + SILENT_MS);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
  server.forceShutdown();
}

/**
 * Returns `grpc.reflection.v1.ServerReflection`, and its `v1alpha`, for the services of the contract, so that tools
 * such as grpcurl need no files. It serves the descriptors that `npm run proto` compiled, which are part of the
 * deployment: those that the library generates from `.proto` files name imports that it does not have. `services` are
 * the full names of the listed services; by default all of the contract.
 */
export function contractReflection(services?: readonly string[]): ReflectionService {
  const bytes = readFileSync(join(projectFolder(), "proto/gen/descriptors.binpb"));
  const { file } = fromBinary(FileDescriptorSetSchema, bytes);
  const fileDescriptorProtos = file.map((one) => Buffer.from(toBinary(FileDescriptorProtoSchema, one)));
  const contract = { format: "Protocol Buffer 3 DescriptorProto", type: {}, fileDescriptorProtos } as const;
  return new ReflectionService({ contract }, services && { services: [...services] });
}
