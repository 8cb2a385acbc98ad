import { shownTools } from "../../../deploy/runtime/contract/shown-tools.ts";
import { OutputParser } from "../../../engine/output-parser/output-parser.ts";
import {
  type Event,
  FinishReason,
  type GenerateRequest,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { finished, started } from "../events/events.ts";
import { HERMES_MARKERS } from "./hermes-markers.ts";
import type { Script } from "./scripted-backend.ts";

/** Makes the script of a model that writes these pieces, one token each, through the node's own output parser. */
export function modelWrites(...pieces: readonly string[]): Script {
  return (request) => written(request, pieces);
}

function* written(request: GenerateRequest, pieces: readonly string[]): Generator<readonly Event[]> {
  let calls = 0;
  const mayCall = request.toolChoice?.mode !== ToolChoiceMode.NONE;
  const parser = new OutputParser({
    markers: HERMES_MARKERS,
    startsInReasoning: false,
    toolNames: mayCall ? shownTools(request.tools, request.messages).map((tool) => tool.name) : [],
    ...(request.toolChoice?.disableParallelCalls && { maxToolCalls: 1 }),
    stop: request.sampling?.stop ?? [],
    newCallId: () => `call_${calls++}`,
  });
  yield [started()];
  const tokens = pieces.slice(0, request.maxOutputTokens ?? pieces.length);
  const cut = tokens.length < pieces.length && request.maxOutputTokens !== 0;
  for (const token of tokens) yield parser.push(token);
  yield parser.end(cut ? "cut" : "stop");
  yield [finished(reasonOf(parser, cut), { outputTokens: tokens.length }, matched(parser))];
}

function reasonOf(parser: OutputParser, cut: boolean): FinishReason {
  if (parser.matchedStop !== undefined) return FinishReason.STOP_SEQUENCE;
  if (cut) return FinishReason.MAX_OUTPUT_TOKENS;
  return parser.endedCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
}

function matched({ matchedStop }: OutputParser) {
  return matchedStop === undefined ? {} : { matchedStop };
}
