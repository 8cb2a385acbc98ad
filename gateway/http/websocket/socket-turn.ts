import type { IncomingHttpHeaders } from "node:http";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { toApiError } from "../../errors.ts";
import { toolSeconds } from "../../formats/agent-hints.ts";
import type { Head } from "../../formats/format.ts";
import { bodyOf, FRAME_KEYS, type Frame, responseFrames } from "../../formats/responses/frames.ts";
import type { Answering } from "../../formats/responses/request.ts";
import { ResponsesStream } from "../../formats/responses/stream.ts";
import type { Principal } from "../../keys/principal.ts";
import type { InflightBody } from "../../overload/body-budget.ts";
import { SOCKET } from "../../routes.ts";
import { conversationBehind } from "../../translation/translate.ts";
import type { Translation } from "../../translation/translator.ts";
import { promptBytes } from "../../upstream/load-balancing/boundary-hashes.ts";
import { RequestBuffer } from "../../upstream/request/request-buffer.ts";
import { type AuthDeps, authenticate } from "../access/auth.ts";
import { admitRequest, type LimitedRequest, reserveTokens } from "../access/rate-limit.ts";
import { bodyTooLarge } from "../access/request-head.ts";
import { dispatchAnswer, type PaidRequest } from "../answer/dispatch-answer.ts";
import { type GenerateRouteDeps, headOf, openStream } from "../answer/generate-route.ts";
import {
  type BodyLimits,
  budgetExceeded,
  maxBytesOf,
  refuseInTrouble,
  translateReceived,
} from "../body/request-body.ts";
import { routingHints } from "../record/request-context.ts";
import type { RequestRecord } from "../record/request-record.ts";
import type { FrameReply } from "./frame-reply.ts";
import { type Conversation, keptBytes } from "./kept-conversations.ts";

export type TurnDeps = GenerateRouteDeps & { readonly auth: AuthDeps; readonly bodies: BodyLimits };

export type Caller = {
  /** Those of the handshake, as in Node: alternating names and values. */
  readonly rawHeaders: readonly string[];
  readonly address: string;
};

/** A frame on its way. */
export type Turn = {
  readonly record: RequestRecord;
  readonly reply: FrameReply;
  readonly body: InflightBody;
  /** Those of the handshake, with what the frame says of this turn in their place. */
  readonly headers: IncomingHttpHeaders;
  /** Whether the frame continues a conversation. */
  continued: boolean;
};

/** What a frame asks for, once its socket has looked at it. */
export type Asked = {
  readonly frame: Frame;
  /** The conversation that it continues. */
  readonly kept: Conversation | undefined;
  /** Called with the conversation of the frame, before its answer. */
  readonly keep: (conversation: Conversation) => void;
};

/** What can be continued: the response, and the JSON texts of its items. */
export type Answered = {
  readonly responseId: string;
  readonly output: readonly string[];
  /** Where the prompt has a lease, until `Router.endLease`; undefined where no engine has it. */
  readonly lease: Lease | undefined;
};

export type Lease = { readonly model: string; readonly address: string; readonly digest: string };

/**
 * Passes a frame through the checks of an HTTP request, in the same order, and answers it. `asked` is called behind the
 * limits of the key, and throws `ApiError` for a frame that its socket refuses. Resolves to undefined for an answer that
 * no conversation continues. Throws `ApiError`; the reply has ended if its
 * caller knows of it already.
 */
export async function answerFrame(
  turn: Turn,
  caller: Caller,
  asked: () => Asked,
  deps: TurnDeps,
): Promise<Answered | undefined> {
  const { record, reply } = turn;
  const { auth, limits, bodies, translation, running } = deps;
  const onTooMany = () => {};
  const principal = await authenticate({ record, ...caller, onTooMany }, auth);
  const answer = running.begin(reply, principal.keyId);
  refuseInTrouble(bodies.overload, bodies.random);
  const limited: LimitedRequest = { record, principal, use: SOCKET.use, reply, show: () => {} };
  await admitRequest(limited, limits);
  const { bytes, generates, before, keep } = bodyAsked(turn, asked(), bodies);
  const translated = await translateReceived(
    { bytes, singleKeys: FRAME_KEYS },
    { operation: SOCKET.operation, record, principal, headers: turn.headers, before },
    answer.signal,
    translation,
  );
  const conversation = conversationBehind(translated);
  if (conversation) keep({ ...conversation, output: [] });
  const { model, unopened } = translated;
  record.prepared(model, true, unopened);
  translation.models.require(principal, model);
  for (const seconds of toolSeconds(turn.headers)) deps.stats.toolDuration.observe(seconds);
  const head = headOf(SOCKET.format, record, principal.tenant, model, deps);
  return giveAnswer({ turn, generates, principal, limited, translated, head, answer }, deps);
}

/** Returns the body that a frame asks for, without a reference to the frame, and counts it. Throws `ApiError`. */
function bodyAsked({ record, body }: Turn, { frame, kept, keep }: Asked, bodies: BodyLimits) {
  const bytes = bodyOf(frame, kept?.items, kept?.output);
  record.bodyRead(frame.json.length);
  const maxBytes = maxBytesOf(record, bodies);
  const earlierBytes = kept ? keptBytes(kept) : 0;
  if (bytes.length + earlierBytes > maxBytes) throw bodyTooLarge(maxBytes);
  const lack = kept && body.add(earlierBytes);
  if (lack) throw budgetExceeded(lack, bodies.random);
  return { bytes, generates: frame.generates, before: kept, keep };
}

/** The longest time for reading a prompt ahead, in milliseconds: the turn that it is for waits behind it. */
const PREWARM_MS = 10_000;

const NO_TOKENS = { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0 };

/** The events of a response without an answer. */
const NOTHING: readonly Event[] = [
  { kind: { $case: "started", value: { nodeId: "", modelRevision: "", inputTokens: 0, sampling: undefined } } },
  {
    kind: { $case: "finished", value: { reason: FinishReason.STOP, usage: NO_TOKENS, timings: undefined } },
  },
];

type Given = {
  readonly turn: Turn;
  readonly generates: boolean;
  readonly principal: Principal;
  readonly limited: LimitedRequest;
  readonly translated: Translation;
  readonly head: Head;
  readonly answer: PaidRequest["answer"];
};

async function giveAnswer(
  { turn, generates, principal, limited, translated, head, answer }: Given,
  deps: TurnDeps,
): Promise<Answered | undefined> {
  const { record, reply, body, headers } = turn;
  const { model, places, bytes, inserted, facts, kept, priority } = translated;
  if (!facts) throw new Error("a generation was translated as something else");
  const newEncoder = () => responseFrames.encoder(head, translated.options as Answering);
  const encoder = newEncoder();
  const responseId = `resp_${head.replyId}`;
  const answerNothing = () => {
    const own = newEncoder();
    reply.writeHead();
    reply.write(NOTHING.map((event) => own.next(event)).join(""));
    reply.end();
    return { responseId, output: [], lease: undefined };
  };
  if (!generates && promptBytes(facts.shape) === 0) return answerNothing();
  await reserveTokens(limited, translated, deps.limits);
  const paid: PaidRequest = {
    ...{ format: SOCKET.format, model, places, facts, kept, record, answer },
    request: new RequestBuffer({ bytes, inserted, lease: true }, principal.tenant, () => body.release()),
    hints: routingHints(principal, headers, priority),
  };
  const stream = openStream(paid, { response: reply, encoder, headers: {} }, deps);
  const timeoutMs = generates ? deps.timeouts.maxStreamDurationMs : PREWARM_MS;
  try {
    await dispatchAnswer(paid, { timeoutMs, keepsAlive: true, sink: stream }, deps, true);
  } catch (thrown) {
    if (!generates && !stream.committed && !answer.signal.aborted) {
      stream.abandon();
      return answerNothing();
    }
    const error = toApiError(thrown);
    if (stream.committed) {
      record.refused(error.detail);
      stream.fail(error);
    } else stream.abandon();
    throw error;
  }
  stream.end();
  if (!(encoder instanceof ResponsesStream)) return undefined;
  const address = record.facts.endpoint;
  const digest = facts.shape.boundaries.at(-1)?.hash;
  const lease = address !== undefined && digest !== undefined ? { model, address, digest } : undefined;
  return { responseId, output: encoder.output.map((item) => JSON.stringify(item)), lease };
}
