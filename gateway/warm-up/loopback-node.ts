import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { HealthCheckResponse_ServingStatus, HealthService } from "../../proto/gen/grpc/health/v1/health.ts";
import {
  type Event,
  FinishReason,
  GenerateRequest,
  GenerateResponse,
  InferenceServiceService,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  Capability,
  type DescribeNodeResponse,
  EngineKind,
  Modality,
  type ModelDescription,
  ModelState,
  NodeServiceService,
} from "../../proto/gen/svc/inference/v1/node_service.ts";
import { framed } from "../upstream/wire/message-cutter.ts";

/** The bytes before each message of gRPC: a flag and a length. */
const PREFIX_BYTES = 5;
const HEAD = { ":status": 200, "content-type": "application/grpc" } as const;
const OK = 0;
const UNIMPLEMENTED = 12;
/** The messages that come at once: nodes send a few tokens at a time, and more turns would only take longer. */
const MESSAGES_A_TURN = 4;
/** A text with all that a frame has to escape or to count: plain words, a quote and a line's end, and wider characters. */
const PIECES = [
  ..."A loopback node says what it has been told to say , and".split(" ").map((word) => ` ${word}`),
  ' "\n',
  " ü→",
];
const ARGUMENTS = ['{"path": "', "src/main.ts", '", "limit": 20', "}"];

/** A node that answers at once, in this process. */
export type LoopbackNode = {
  /** The address of the node, `host:port`. */
  readonly address: string;
  /** Ends the node and all its connections. */
  close(): void;
};

/**
 * Starts a node that serves `model` on a port of this machine alone: each generation gets the same answer at once, with
 * reasoning where it is asked for and a tool call where tools are forced. It stands on `node:http2` alone, as all that
 * it did itself would be taken from the time that the gateway has to get warm.
 */
export async function startLoopbackNode(model: string): Promise<LoopbackNode> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {});
  });
  const replies = repliesOf(model);
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    answer(stream, replies.get(String(headers[":path"])));
  });
  // Workers would share the port.
  server.listen({ port: 0, host: "127.0.0.1", exclusive: true });
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => close(server, sessions),
  };
}

function close(server: Http2Server, sessions: Iterable<ServerHttp2Session>): void {
  server.close();
  for (const session of sessions) session.destroy();
}

/** What is said to a call: whole messages in turns of the event loop, upon which the call ends unless it stays open. */
type Reply = { readonly turns: (request: Buffer) => readonly Buffer[]; readonly staysOpen?: boolean };

function repliesOf(model: string): ReadonlyMap<string, Reply> {
  const serving = framed(HealthService.check.responseSerialize({ status: HealthCheckResponse_ServingStatus.SERVING }));
  const described = framed(NodeServiceService.describeNode.responseSerialize(descriptionOf(model)));
  const counted = framed(InferenceServiceService.countTokens.responseSerialize({ inputTokens: 100 }));
  return new Map<string, Reply>([
    [HealthService.check.path, { turns: () => [serving] }],
    [HealthService.watch.path, { turns: () => [serving], staysOpen: true }],
    [NodeServiceService.describeNode.path, { turns: () => [described] }],
    [InferenceServiceService.countTokens.path, { turns: () => [counted] }],
    [InferenceServiceService.generate.path, { turns: generated }],
  ]);
}

function answer(stream: ServerHttp2Stream, reply: Reply | undefined): void {
  const chunks: Buffer[] = [];
  let code = OK;
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": String(code) }));
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => {
    stream.respond(HEAD, { waitForTrailers: true });
    if (!reply) {
      code = UNIMPLEMENTED;
      stream.end();
      return;
    }
    const turns = reply.turns(Buffer.concat(chunks));
    const next = (at: number): void => {
      const bytes = turns[at];
      if (stream.destroyed) return;
      if (bytes) {
        stream.write(bytes);
        setImmediate(next, at + 1);
      } else if (!reply.staysOpen) stream.end();
    };
    next(0);
  });
}

/** Returns the answer to a request, each of its events in a message of its own. */
function generated(bytes: Buffer): readonly Buffer[] {
  const { reasoning, tools } = GenerateRequest.decode(bytes.subarray(PREFIX_BYTES));
  const blocks: Event[][] = [];
  if (reasoning !== undefined) blocks.push(block(blocks.length, { $case: "reasoning", value: {} }, PIECES));
  blocks.push(block(blocks.length, { $case: "text", value: {} }, PIECES));
  const [tool] = tools;
  if (tool) {
    const call = { callId: "call_1", name: tool.name };
    blocks.push(block(blocks.length, { $case: "toolCall", value: call }, ARGUMENTS));
  }
  const events = [STARTED, ...blocks.flat(), finishedOf(tool ? FinishReason.TOOL_CALLS : FinishReason.STOP)];
  const messages = events.map((event) => framed(GenerateResponse.encode({ events: [event], tokens: [] }).finish()));
  const turns = Math.ceil(messages.length / MESSAGES_A_TURN);
  return Array.from({ length: turns }, (_, at) =>
    Buffer.concat(messages.slice(at * MESSAGES_A_TURN, (at + 1) * MESSAGES_A_TURN)),
  );
}

const STARTED: Event = {
  kind: {
    $case: "started",
    value: { nodeId: "loopback", modelRevision: "loopback", inputTokens: 100, sampling: undefined },
  },
};

type BlockKind = Extract<NonNullable<Event["kind"]>, { $case: "blockStarted" }>["value"]["block"];

function block(index: number, kind: BlockKind, pieces: readonly string[]): Event[] {
  return [
    { kind: { $case: "blockStarted", value: { index, block: kind } } },
    ...pieces.map((text): Event => ({ kind: { $case: "blockDelta", value: { index, text, logprobs: [] } } })),
    { kind: { $case: "blockEnded", value: { index, complete: true } } },
  ];
}

function finishedOf(reason: FinishReason): Event {
  const counts = { inputTokens: 100, cachedInputTokens: 50, cacheWriteTokens: 0, outputTokens: 20, reasoningTokens: 5 };
  return { kind: { $case: "finished", value: { reason, usage: counts, timings: undefined } } };
}

function descriptionOf(model: string): DescribeNodeResponse {
  const description: ModelDescription = {
    ...{ id: model, revision: "loopback", contextWindow: 1_000_000, maxOutputTokens: 100_000 },
    ...{ kvTokenCapacity: 0, kvBlockTokens: 0, keptConversations: 0, longestTokenBytes: 0 },
    maxConcurrentRequests: 1_000,
    inputModalities: [Modality.TEXT],
    capabilities: [
      ...[Capability.TOOLS, Capability.JSON_SCHEMA, Capability.JSON_OBJECT],
      ...[Capability.REASONING, Capability.REASONING_OFF],
    ],
    state: ModelState.READY,
    maxCacheTtl: undefined,
  };
  return {
    ...{
      nodeId: "loopback",
      engineKind: EngineKind.UNSPECIFIED,
      engineVersion: "",
      nodeVersion: "",
      startedAt: undefined,
    },
    models: [description],
  };
}
