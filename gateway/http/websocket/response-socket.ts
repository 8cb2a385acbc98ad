import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import { ApiError, toApiError } from "../../errors.ts";
import { previousNotFound } from "../../formats/field-error.ts";
import { type Frame, readFrame } from "../../formats/responses/frames.ts";
import type { Principal } from "../../keys/principal.ts";
import type { InflightBody } from "../../overload/body-budget.ts";
import { SOCKET } from "../../routes.ts";
import { budgetExceeded } from "../body/request-body.ts";
import { cured } from "../connection/agent-cures.ts";
import { type RecordSinks, writeDown } from "../record/access-log.ts";
import { RequestRecord, type RouteLabels } from "../record/request-record.ts";
import { traceContextOf } from "../record/trace-context.ts";
import { FrameReply, type FrameSink } from "./frame-reply.ts";
import { type Conversation, type Kept, type KeptConversations, keptBytes } from "./kept-conversations.ts";
import {
  type Answered,
  type Asked,
  answerFrame,
  type Caller,
  type Lease,
  type Turn,
  type TurnDeps,
} from "./socket-turn.ts";

/** Frames of one socket that may wait for earlier ones. */
const MAX_WAITING = 8;
/** Answers of one socket at once. */
const MAX_LANES_AT_ONCE = 4;
/** Names of lanes in the life of a socket. */
const MAX_LANES = 32;
const STREAM_ID = /^[A-Za-z0-9_.-]{1,256}$/;
/** Milliseconds between two pings: proxies end silent sockets. */
export const PING_MS = 30_000;
/** Pings after which a caller who sent nothing is lost. */
const MAX_UNANSWERED = 2;
/** Milliseconds without a frame or an answer after which a socket is closed. */
const IDLE_MS = 600_000;
/** Milliseconds of life, and most of its random deviation, so that a fleet's sockets do not end together. */
const AGE_MS = 3_600_000;
const AGE_SPREAD_MS = 300_000;

/** Close codes of RFC 6455: the server leaves, the caller broke a rule, and the server is short of something. */
const CLOSE = { away: 1001, policy: 1008, tryLater: 1013 } as const;

export const FRAME_LABELS: RouteLabels = { route: SOCKET.path, format: SOCKET.format.name, operation: "responses" };

/** Why a socket has ended. */
export const SOCKET_ENDS = ["client", "drain", "idle", "age", "lost", "slow", "key", "no_room", "broken"] as const;
export type SocketEnd = (typeof SOCKET_ENDS)[number];

export type SocketDeps = TurnDeps & { readonly sinks: RecordSinks; readonly kept: KeptConversations };

type Lane = {
  busy: boolean;
  last: { readonly responseId: string; readonly kept: Kept } | undefined;
  /** The lease of the last prompt. */
  lease?: Lease | undefined;
};

type Waiting = {
  readonly turn: Turn;
  /** The error of one that cannot be read; undefined once its turn has it: an answer takes longer than its frame. */
  frame: Frame | ApiError | undefined;
};

/** Headers that describe one turn, so that those of the handshake are wrong for later ones. */
const TURN_HEADERS = [
  ...["traceparent", "tracestate", "x-codex-turn-metadata", "x-codex-window-id", "x-codex-turn-state"],
  ...["x-claude-1p-request-class", "x-claude-code-request-class", "x-claude-code-agent-type"],
  ...["x-claude-code-prev-tool-durations", "x-codex-parent-thread-id", "x-openai-subagent"],
] as const;
/** Keys of `client_metadata` that have a header, with its name. */
const METADATA_HEADERS: Readonly<Record<string, string>> = {
  session_id: "session-id",
  thread_id: "thread-id",
  ...Object.fromEntries(TURN_HEADERS.map((name) => [name, name])),
  ...Object.fromEntries(TURN_HEADERS.map((name) => [`ws_request_header_${name}`, name])),
};

/** Returns the headers of a turn: those of the handshake, with what the frame says of itself. */
export function turnHeaders(handshake: IncomingHttpHeaders, metadata: Frame["metadata"]): IncomingHttpHeaders {
  const headers: IncomingHttpHeaders = { ...handshake };
  for (const name of TURN_HEADERS) delete headers[name];
  for (const [key, name] of Object.entries(METADATA_HEADERS)) {
    const value = metadata[key];
    if (typeof value === "string" && value !== "") headers[name] = value;
  }
  return headers;
}

/** The caller of a socket, as its handshake showed it. */
export type SocketCaller = Caller & {
  readonly headers: IncomingHttpHeaders;
  readonly principal: Principal;
};

/**
 * One WebSocket. Frames of a lane are answered in order, lanes at the same time. The last conversation of each lane is
 * kept while the socket is open, if there is capacity, so that a frame can continue it by new items only.
 */
export class ResponseSocket {
  readonly #ws: WebSocket;
  readonly #raw: Socket;
  readonly #caller: SocketCaller;
  readonly #deps: SocketDeps;
  readonly #sink: FrameSink;
  readonly #lanes = new Map<string | undefined, Lane>();
  readonly #waiting: Waiting[] = [];
  readonly #replies = new Set<FrameReply>();
  readonly #cancelAge: () => void;
  #cancelIdle = () => {};
  #cancelPing = () => {};
  #cancelLeave: (() => void) | undefined;
  /** Pings since the last byte of the caller. */
  #unanswered = 0;
  /** The bytes of the message that is arriving. */
  #arriving: InflightBody;
  #running = 0;
  /** Why the socket ends once no answer runs. */
  #leaving: SocketEnd | undefined;
  #end: SocketEnd = "client";

  constructor(ws: WebSocket, raw: Socket, caller: SocketCaller, deps: SocketDeps) {
    this.#ws = ws;
    this.#raw = raw;
    this.#caller = caller;
    this.#deps = deps;
    this.#arriving = this.#nextBody();
    this.#sink = {
      get writableNeedDrain() {
        return raw.writableNeedDrain;
      },
      once: (event, listener) => raw.once(event, listener),
      send: (frames) => this.#send(frames),
      cut: () => this.#cut("slow"),
    };
    const { clock, bodies } = deps;
    const ageMs = AGE_MS + (2 * bodies.random() - 1) * AGE_SPREAD_MS;
    this.#cancelAge = clock.after(ageMs, () => this.leave("age"));
    this.#follow();
    this.#ping();
    this.#rest();
  }

  /** Why the socket has ended. */
  get end(): SocketEnd {
    return this.#end;
  }

  /** Closes the socket once no answer runs, which may be now; further frames are refused. */
  leave(end: SocketEnd): void {
    this.#leaving ??= end;
    if (this.#idle) this.#close(this.#leaving, CLOSE.away);
  }

  /** Leaves after `ms` milliseconds, for a drain, unless an earlier call has set a time. */
  leaveAfter(ms: number): void {
    this.#cancelLeave ??= this.#deps.clock.after(ms, () => this.leave("drain"));
  }

  get #idle(): boolean {
    return this.#running === 0 && this.#waiting.length === 0;
  }

  #follow(): void {
    const ws = this.#ws;
    ws.on("message", (data, isBinary) => this.#message(data as Buffer, isBinary));
    ws.on("error", () => {
      this.#end = "broken";
    });
    ws.on("close", () => this.#closed());
    // Before the listener that takes messages out of the bytes.
    this.#raw.prependListener("data", (chunk: Buffer) => this.#arrived(chunk));
  }

  #nextBody(): InflightBody {
    return this.#deps.bodies.overload.bodies.begin(this.#caller.principal.tenant);
  }

  #arrived(chunk: Buffer): void {
    this.#unanswered = 0;
    const lack = this.#arriving.add(chunk.length);
    if (!lack || this.#ws.readyState !== this.#ws.OPEN) return;
    // The rest of the message is not read: the socket cannot go on.
    this.#ws.pause();
    const turn = this.#turnOf(undefined, this.#arriving);
    this.#refuse(turn, budgetExceeded(lack, this.#deps.bodies.random));
    this.#close("no_room", CLOSE.tryLater);
  }

  #message(data: Buffer, isBinary: boolean): void {
    const body = this.#arriving;
    this.#arriving = this.#nextBody();
    if (this.#ws.readyState !== this.#ws.OPEN) {
      body.release();
      return;
    }
    this.#holdBack();
    const frame = isBinary ? notText() : readFrameOrError(data);
    const isReadable = !(frame instanceof ApiError);
    if (isReadable && UNANSWERED.has(frame.type)) {
      body.release();
      const event = UNANSWERED.get(frame.type);
      if (event) this.#sink.send([Buffer.from(JSON.stringify({ ...event, stream_id: echoOf(frame) }))]);
      return;
    }
    this.#cancelIdle();
    const turn = this.#turnOf(isReadable ? frame : undefined, body);
    if (this.#waiting.length < MAX_WAITING) {
      this.#waiting.push({ turn, frame });
      this.#pump();
    } else this.#refuse(turn, queueFull());
  }

  /** Reads no further bytes until its caller has read all that was written: refusals would gather in memory. */
  #holdBack(): void {
    if (!this.#raw.writableNeedDrain || this.#ws.isPaused) return;
    this.#ws.pause();
    this.#raw.once("drain", () => this.#ws.resume());
  }

  /** Starts the frames whose lanes are free. */
  #pump(): void {
    const passed = new Set<Lane>();
    for (let at = 0; at < this.#waiting.length && this.#running < MAX_LANES_AT_ONCE; ) {
      const next = this.#waiting[at] as Waiting; // within the list
      const lane = this.#laneOf(next.frame);
      if (lane instanceof ApiError) {
        this.#waiting.splice(at, 1);
        void this.#answer(next, { busy: false, last: undefined }, lane);
      } else if (lane.busy || passed.has(lane)) {
        passed.add(lane);
        at += 1;
      } else {
        this.#waiting.splice(at, 1);
        void this.#answer(next, lane);
      }
    }
  }

  /** Returns the lane of a frame; that of an unreadable one is the default one. */
  #laneOf(frame: Waiting["frame"]): Lane | ApiError {
    const name = frame instanceof ApiError ? undefined : frame?.streamId;
    const known = this.#lanes.get(name);
    if (known) return known;
    if (name !== undefined && !STREAM_ID.test(name)) return invalidStreamId();
    if (name !== undefined && this.#lanes.size - Number(this.#lanes.has(undefined)) >= MAX_LANES)
      return tooManyStreams();
    const lane: Lane = { busy: false, last: undefined };
    this.#lanes.set(name, lane);
    return lane;
  }

  /** It never rejects. */
  async #answer(waiting: Waiting, lane: Lane, refusal?: ApiError): Promise<void> {
    const { kept: store } = this.#deps;
    const { turn } = waiting;
    const previousId = waiting.frame instanceof ApiError ? undefined : waiting.frame?.previousId;
    lane.busy = true;
    this.#running += 1;
    let own: Kept | undefined;
    const asked = (): Asked => {
      const create = this.#accepted(waiting.frame, refusal);
      waiting.frame = undefined;
      const previous = this.#find(create);
      const kept = previous && store.use(previous);
      this.#countFrame(create, kept !== undefined);
      if (create.previousId !== undefined && !kept) throw previousNotFound();
      turn.continued = kept !== undefined;
      const keep = (conversation: Conversation) => {
        // What the lane goes on with is in the new one, and would count twice.
        if (previous === lane.last?.kept) forget(lane);
        own = store.keep(this.#caller.principal.tenant, conversation);
      };
      return { frame: create, kept, keep };
    };
    try {
      const answered = await answerFrame(turn, this.#caller, asked, this.#deps);
      // A prompt that continues another one has its lease.
      if (!turn.continued) this.#endLease(lane);
      this.#keep(lane, answered, own);
    } catch (thrown) {
      const error = toApiError(thrown);
      this.#refuse(turn, error);
      // A continuation that fails is not continued, whatever failed; the conversation of another lane is.
      if (previousId === lane.last?.responseId) forget(lane);
      if (endsSocket(error)) this.#close("key", CLOSE.policy);
    }
    own?.drop();
    turn.body.release();
    lane.busy = false;
    this.#running -= 1;
    this.#pump();
    if (!this.#idle || this.#ws.readyState !== this.#ws.OPEN) return;
    if (this.#leaving) this.#close(this.#leaving, CLOSE.away);
    else this.#rest();
  }

  /** Throws `ApiError` for a frame that asks for no response, or that this socket takes no more. */
  #accepted(frame: Waiting["frame"], refusal: ApiError | undefined): Frame {
    if (frame instanceof ApiError) throw frame;
    if (refusal) throw refusal;
    if (frame?.type !== "response.create") throw unknownType();
    if (this.#leaving) throw renewSocket();
    return frame;
  }

  /** Returns the conversation that a frame continues, of any lane of this socket. */
  #find({ previousId }: Frame): Kept | undefined {
    if (previousId === undefined) return undefined;
    for (const { last } of this.#lanes.values()) if (last?.responseId === previousId) return last.kept;
    return undefined;
  }

  #countFrame({ previousId }: Frame, found: boolean): void {
    const conversation = found ? "continued" : previousId === undefined ? "whole" : "not_found";
    this.#deps.stats.socketFrames.inc({ conversation });
  }

  /** Replaces what a lane keeps by the conversation behind its answer, if that can be continued. */
  #keep(lane: Lane, answered: Answered | undefined, own: Kept | undefined): void {
    forget(lane);
    const conversation = own?.conversation;
    if (answered?.lease) lane.lease = answered.lease;
    if (!answered || !conversation || this.#ws.readyState !== this.#ws.OPEN) return;
    const { responseId, output } = answered;
    const whole = { ...conversation, output };
    own?.drop();
    if (keptBytes(whole) > this.#deps.bodies.maxBodyBytes) return;
    lane.last = { responseId, kept: this.#deps.kept.keep(this.#caller.principal.tenant, whole) };
  }

  /** Begins the record of a frame, which is written down when its reply has ended. */
  #turnOf(frame: Frame | undefined, body: InflightBody): Turn {
    const { address, headers: handshake } = this.#caller;
    const { sinks } = this.#deps;
    const { clock, tracing } = sinks;
    const headers = turnHeaders(handshake, frame?.metadata ?? {});
    const record = new RequestRecord({ labels: FRAME_LABELS, trace: traceContextOf({}), headers, tracing, clock });
    const reply = new FrameReply(this.#sink, frame && echoOf(frame));
    const turn: Turn = { record, reply, body, headers, continued: false };
    this.#replies.add(reply);
    reply.on("close", () => {
      this.#replies.delete(reply);
      const closed = record.closed(reply.headersSent ? reply.statusCode : 0, reply.writableFinished);
      const socket = { transport: "websocket", ...(turn.continued && { continued: true }) } as const;
      writeDown(closed, { method: "GET", socket, address, headers, bytesOut: reply.bytesOut }, sinks);
    });
    return turn;
  }

  #refuse({ record, reply, body, headers }: Turn, error: ApiError): void {
    record.refused(error.detail);
    reply.refuse(cured(error, headers), record.requestId);
    body.release();
  }

  /** Writes frames at once: a write for each would cost several times as much. */
  #send(frames: readonly Buffer[]): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#raw.cork();
    for (const frame of frames) this.#ws.send(frame, { binary: false });
    this.#raw.uncork();
  }

  #ping(): void {
    this.#cancelPing = this.#deps.clock.after(PING_MS, () => {
      if (this.#unanswered >= MAX_UNANSWERED) {
        this.#cut("lost");
        return;
      }
      this.#unanswered += 1;
      this.#ws.ping();
      this.#ping();
    });
  }

  #rest(): void {
    this.#cancelIdle();
    this.#cancelIdle = this.#deps.clock.after(IDLE_MS, () => this.leave("idle"));
  }

  #close(end: SocketEnd, code: number): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return;
    this.#end = end;
    this.#ws.close(code);
  }

  #cut(end: SocketEnd): void {
    this.#end = end;
    this.#ws.terminate();
  }

  #closed(): void {
    for (const cancel of [this.#cancelAge, this.#cancelIdle, this.#cancelPing, this.#cancelLeave]) cancel?.();
    for (const { turn } of this.#waiting.splice(0)) turn.body.release();
    for (const reply of [...this.#replies]) reply.close();
    for (const lane of this.#lanes.values()) {
      forget(lane);
      this.#endLease(lane);
    }
    this.#arriving.release();
  }

  #endLease(lane: Lane): void {
    const { lease } = lane;
    lane.lease = undefined;
    if (lease) this.#deps.router.endLease(lease.model, lease.address, lease.digest);
  }
}

/** Replies to frames of other services that ask for no response; undefined for none. */
const UNANSWERED: ReadonlyMap<string, object | undefined> = new Map([
  [
    "response.steer",
    {
      type: "response.steer.failed",
      error: {
        message: "An answer takes no further input here. Send it in the next frame.",
        type: "invalid_request_error",
        param: null,
        code: "steering_not_supported",
      },
    },
  ],
  // Older Codex, after each answer.
  ["response.processed", undefined],
]);

/** Returns the name of a frame's lane for replies; an invalid one, of any length, is not sent back. */
function echoOf({ streamId }: Frame): string | undefined {
  return streamId !== undefined && STREAM_ID.test(streamId) ? streamId : undefined;
}

function forget(lane: Lane): void {
  lane.last?.kept.drop();
  lane.last = undefined;
}

/** Returns whether the key is not in force any more, or not here: no further frame could pass. */
function endsSocket({ code }: ApiError): boolean {
  return code === "invalid_api_key" || code === "permission_denied";
}

function readFrameOrError(data: Buffer): Frame | ApiError {
  try {
    return readFrame(data);
  } catch (error) {
    return toApiError(error);
  }
}

function notText(): ApiError {
  return new ApiError("bad_request", "A frame must be text: binary frames are not read.");
}

function queueFull(): ApiError {
  const text = `More than ${MAX_WAITING} frames of this WebSocket wait for earlier ones. Please wait for an answer.`;
  return new ApiError("rate_limit_exceeded", text, {
    limit: "requests",
    retryAfterMs: 1_000,
    detail: "socket_queue_full",
  });
}

function unknownType(): ApiError {
  return new ApiError("invalid_value", "Invalid value: 'type'. Supported values are: 'response.create'.", {
    path: ["type"],
  });
}

function invalidStreamId(): ApiError {
  const text = "Invalid 'stream_id': expected 1 to 256 letters, digits, dots, hyphens or underscores.";
  return new ApiError("invalid_stream_id", text, { path: ["stream_id"] });
}

function tooManyStreams(): ApiError {
  const text = `This WebSocket has had ${MAX_LANES} streams. Please use one of them, or a new WebSocket.`;
  return new ApiError("websocket_stream_limit_reached", text, { path: ["stream_id"] });
}

function renewSocket(): ApiError {
  const text = "This WebSocket takes no further frames. Please open a new one, and send the whole conversation.";
  return new ApiError("websocket_connection_limit_reached", text);
}
