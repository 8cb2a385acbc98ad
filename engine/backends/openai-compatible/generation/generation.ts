import { randomBytes } from "node:crypto";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import { linkAbort } from "../../../../deploy/runtime/time/abort.ts";
import type {
  Event,
  GenerateRequest,
  GenerateResponse,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { WorkGivenUp } from "../../../caller-work/caller-work.ts";
import { EngineError } from "../../../errors.ts";
import { type CompiledSchema, checkCompiledSchemas } from "../../../grammar/validation/compiled-schemas.ts";
import { newCallIds } from "../../request-plan.ts";
import { SignsOfLife } from "../../signs-of-life.ts";
import { finished, progress, started, stepOf, timings } from "../../stream-events.ts";
import { readChunk } from "../answer/chunk.ts";
import { ChunkReader } from "../answer/chunk-reader.ts";
import { readText } from "../http/engine-http.ts";
import { EventStream } from "../http/event-stream.ts";
import { faultOfReply, toEngineFault } from "../http/http-error.ts";
import { toJsonBytes } from "../http/raw-json.ts";
import type { PromptSink } from "../kv-events/engine-cache.ts";
import { type ChatRequest, toChatRequest } from "../request/request.ts";
import type { GenerationParts } from "./generation-parts.ts";
import { OutputRoom } from "./output-room.ts";

/** The longest time for reading the text of an error reply, in milliseconds. */
const REFUSAL_TIMEOUT_MS = 5_000;
/** The most characters of all schemas together that are checked on the main thread: about 3 ms for adversarial ones. */
const SMALL_SCHEMAS = 4 * 1024;

/**
 * Runs one generation on the engine as canonical events. Leaving the iteration closes the connection, which stops the
 * engine. Throws `EngineError`; an answer that breaks off never ends cleanly.
 */
export async function* generate(
  parts: GenerationParts,
  request: GenerateRequest,
  signal: AbortSignal,
): AsyncGenerator<GenerateResponse, void, void> {
  if (request.continuation)
    throw new EngineError("UNSUPPORTED_FEATURE", "continuation: this engine cannot go on with an answer.");
  const chat = toChatRequest(request, parts.settings, engineRequestId(request));
  const link = linkAbort(signal);
  const { watch } = parts;
  const life = new SignsOfLife(() => progress(Math.max(0, watch.load?.waiting ?? 0), 0, watch.moves));
  const unwatch = watch.onMove(() => life.tell());
  try {
    yield* life.during(
      checkSchemas(parts.work, chat.compiled, { ...request, signal: link.signal, onMove: () => life.tell() }),
    );
    const room = new OutputRoom(parts, chat, request, link.signal);
    const limit = yield* life.during(room.limit(() => life.tell()));
    const turn = () => parts.turns.nextUnlessLeft(request.tenant, link.signal);
    const body = await toJsonBytes({ ...chat.body, ...limit }, turn);
    const onPrompt = parts.cache?.follow(request, chat);
    const stream = yield* life.during(watch.owed(openStream(parts, body, () => life.tell(), link.signal)));
    yield* answer(parts, stream, newReader(parts, chat, request, onPrompt), room, life);
  } finally {
    unwatch();
    link.release();
    // A consumer that stops iterating also stops the engine, at any point.
    link.abort(new EngineError("CANCELLED", "The caller has left."));
  }
}

/**
 * Checks the schemas that the engine would compile, on a worker thread if they are long. Throws `EngineError`
 * INVALID_SCHEMA for one that the engine should not receive.
 */
async function checkSchemas(
  work: GenerationParts["work"],
  compiled: readonly CompiledSchema[],
  { tenant, signal, onMove }: WorkOrder,
): Promise<void> {
  const length = compiled.reduce((sum, { text }) => sum + text.length, 0);
  if (length <= SMALL_SCHEMAS) return checkCompiledSchemas(compiled);
  try {
    await work.run("schemas", compiled, { tenant, signal, ...(onMove && { onMove }) });
  } catch (error) {
    if (!(error instanceof WorkGivenUp)) throw error;
    throw new EngineError("INVALID_SCHEMA", "The schema is too complex to be looked at.", {}, error);
  }
}

async function* answer(
  parts: GenerationParts,
  stream: EventStream,
  reader: ChunkReader,
  room: OutputRoom,
  life: SignsOfLife,
): AsyncGenerator<GenerateResponse, void, void> {
  const { nowMs, watch } = parts;
  const sentMs = nowMs();
  let isStarted = false;
  let firstMs: number | undefined;
  for (let over = false; !over; ) {
    const piece = watch.owed(stream.next());
    const { data, done } = firstMs === undefined ? yield* life.during(piece) : await piece;
    if (data.length > 0) watch.stepped();
    const events: Event[] = [];
    for (const datum of data) {
      const chunk = readChunk(datum);
      const news = reader.read(chunk);
      if (!isStarted && (news.length > 0 || reader.usage?.inputTokens !== undefined)) {
        isStarted = true;
        events.push(await startOf(parts, reader, room));
      }
      if (isStarted && chunk.prefilledTokens !== undefined)
        events.push(progress(0, chunk.prefilledTokens, watch.moves));
      if (news.length > 0) firstMs ??= nowMs();
      events.push(...news);
      if (reader.wantsNoMore) break;
    }
    over = done || reader.wantsNoMore;
    if (!over && events.length > 0) yield stepOf(events);
    if (!over) continue;
    const { events: rest, reason, matchedStop } = reader.end();
    if (!isStarted) events.push(await startOf(parts, reader, room));
    const endMs = nowMs();
    // Closed before the last event is sent: the next turn of this conversation may arrive at once.
    stream.close();
    const measured = timings({ prefillMs: (firstMs ?? endMs) - sentMs, decodeMs: endMs - (firstMs ?? endMs) });
    const last = finished({ reason, matchedStop, usage: reader.finalUsage(), timings: measured });
    yield stepOf([...events, ...rest, last]);
  }
}

async function startOf({ nodeId, facts }: GenerationParts, { usage }: ChunkReader, room: OutputRoom): Promise<Event> {
  const cachedInputTokens = usage?.cachedInputTokens;
  return started({
    nodeId,
    modelRevision: facts.revision,
    // These engines do not report their default sampling parameters.
    sampling: undefined,
    inputTokens: usage?.inputTokens ?? (await room.inputTokens()),
    ...(cachedInputTokens === undefined ? {} : { cachedInputTokens }),
  });
}

async function openStream(
  { http, settings, silenceMs }: GenerationParts,
  body: readonly Buffer[],
  onSent: () => void,
  signal: AbortSignal,
): Promise<EventStream> {
  const path = settings.dialect.paths.generate;
  const { status, stream } = await http.open({ method: "POST", path, body, timeoutMs: silenceMs, onSent }, signal);
  if (status === 200) return new EventStream(stream, silenceMs, signal);
  // A status is an answer, even if its text breaks off or never arrives.
  stream.setTimeout(REFUSAL_TIMEOUT_MS, () => stream.destroy());
  const text = await readText(stream).catch(() => "");
  throw toEngineFault(faultOfReply(status, text));
}

function newReader(
  { settings, facts, onFault }: GenerationParts,
  chat: ChatRequest,
  request: GenerateRequest,
  onPrompt: PromptSink | undefined,
): ChunkReader {
  return new ChunkReader({
    reasoning: settings.profile.reasoning,
    marks: settings.marks,
    hideReasoning: chat.thinking.hidden,
    begun: chat.begun,
    stops: chat.nodeStops,
    onFault,
    callable: chat.tools.callable,
    maxCalls: chat.tools.maxCalls,
    newCallId: newCallIds("any", []),
    callerStops: request.sampling?.stop ?? [],
    maxOutputTokens: request.maxOutputTokens,
    contextWindow: facts.contextWindow,
    onPrompt,
  });
}

/**
 * Creates the engine's id for the request. A retry may reach the engine while it still runs the first attempt, so that
 * their ids must differ.
 */
function engineRequestId({ requestId }: GenerateRequest): string | undefined {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(requestId)) return undefined;
  return `${requestId}-${randomBytes(4).toString("hex")}`;
}
