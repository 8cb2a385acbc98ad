import { expect, test } from "vitest";
import { BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { planAnswer } from "../../../../engine/backends/answer-plan.ts";
import { TokenAnswer } from "../../../../engine/backends/token-answer.ts";
import { FinishReason, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Tool } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { HERMES_MARKERS } from "../../../support/engine/hermes-markers.ts";
import { answerOf } from "../../../support/events/answer-of.ts";

const TOOLS = [Tool.fromPartial({ name: "run", parametersJsonSchema: '{"type":"object"}' })];
const REQUEST: GenerateRequest = { ...GenerateRequest.create(), tools: TOOLS };

const begun = '<tool_call>\n{"name": "run", "arguments": {"a": 1';
const LIMIT = FinishReason.MAX_OUTPUT_TOKENS;

test.each([
  ["is whole", `${begun}}}\n</tool_call>`, undefined, FinishReason.TOOL_CALLS, '{"a": 1}'],
  ["the model breaks", `${begun} b}}\n</tool_call>`, undefined, FinishReason.TOOL_CALLS, `{"a": 1 ${BREAK}b}}\n`],
  ["the model leaves", begun, undefined, FinishReason.TOOL_CALLS, `{"a": 1${BREAK}`],
  ["a limit cuts", begun, LIMIT, LIMIT, '{"a": 1'],
])(
  "an answer with a call that %s ends for its reason, with the arguments as written",
  (_, text, limit, reason, args) => {
    const plan = planAnswer(REQUEST, { thinking: undefined, callIds: "any", toolsAsText: false });
    const answer = new TokenAnswer({ plan, markers: HERMES_MARKERS, startsInReasoning: false });
    const events = [...answer.push(1, text), ...answer.end(limit !== undefined)];
    expect(answerOf(events).blocks.map(({ kind, text: shown }) => [kind, shown])).toEqual([["toolCall", args]]);
    expect(answer.finishReason(limit)).toBe(reason);
  },
);
