import { agentTurn } from "../../engine/backends/scripted/agent-script.ts";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { PlannedAnswer } from "../support/engine/simulator/planned-answer.ts";

/*
 * The task of the lane of agents: in each turn a file is written by the agent's own tool, in the last one the answer is
 * text. The state is read from the request alone, so that any node can go on with it, and so that it outlives a
 * compaction whose summary names the last file.
 */

/** What users ask for. It must not name a file as the script does. */
export const TASK = "Create the files that you are told to, one file after the other, and end with a sentence.";
export const DONE = "All of the files are written.";

export const fileOf = (step: number): string => `step-${step}.txt`;
export const contentOf = (step: number, tokens: number): string =>
  `The content of step ${step}.${" word".repeat(tokens)}\n`;

export type Script = {
  /** The number of files. */
  readonly steps: number;
  /** Tokens of the content of each file. */
  readonly tokens: number;
};

const STEP = /step-(\d+)\.txt/g;
/** Where a file was written: behind a compaction no other words may name the folder. */
const PLACE = /(\/[^\s"'\\]+)\/step-\d+\.txt/;
/** mini-swe-agent ends when its shell prints this. */
const SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
/** An agent shortens its history; `GOES_ON` is in what it begins again with. */
const SUMMARY =
  /\b(create|write|provide|generate|produce|output) (a|an|the|your) ([\w,-]+ ){0,6}summary|checkpoint compaction|summarize/i;
const GOES_ON = "the next one is to be written";

const NO_TOOLS = /do not call any tools/i;

export function taskAnswer(request: GenerateRequest, { steps, tokens }: Script): PlannedAnswer {
  if (request.outputConstraint) return said("{}");
  // Before a compaction agents may shorten all of the calls.
  const done = lastStep(request.messages, tokens) || lastStep(request.messages, 0);
  const suited = agentTurn({ ...request, toolChoice: undefined, messages: asked(request.messages) });
  const called = suited.flatMap(({ kind }) => (kind?.$case === "blockStarted" ? [kind.value.block] : []))[0];
  const last = request.messages.at(-1);
  const summary = last?.role === Role.USER && SUMMARY.test(textOf(last)) && !textOf(last).includes(GOES_ON) && done > 0;
  const forbidden = request.toolChoice?.mode === ToolChoiceMode.NONE || (last && NO_TOOLS.test(textOf(last)));
  if (called?.$case !== "toolCall" || summary || forbidden)
    return said(done === 0 ? "Files" : `The file ${fileOf(done)} is written, ${GOES_ON}.`);
  if (done >= steps) {
    const isMini = request.messages.some((message) => textOf(message).includes(SUBMIT));
    return isMini
      ? call(request, called.value.name, JSON.stringify({ command: `echo ${SUBMIT}` }), done + 1)
      : said(DONE);
  }
  const step = done + 1;
  const [, place] = PLACE.exec(request.messages.map(textOf).join("\n")) ?? [];
  const json = suited
    .flatMap(({ kind }) => (kind?.$case === "blockDelta" ? [kind.value.text] : []))
    .join("")
    .replaceAll('"hello.txt"', JSON.stringify(place === undefined ? "hello.txt" : `${place}/hello.txt`))
    .replaceAll("hello.txt", fileOf(step))
    .replaceAll("Hello from the scripted engine.", contentOf(step, tokens).trim());
  return call(request, called.value.name, json, step);
}

function call({ requestId }: GenerateRequest, name: string, json: string, step: number): PlannedAnswer {
  const value = { callId: `call_${requestId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-20)}${step}`, name };
  return {
    blocks: [{ block: { $case: "toolCall", value }, tokens: pieces(json), complete: true }],
    reason: FinishReason.TOOL_CALLS,
  };
}

/** A conversation in which the scripted engine calls the tool that writes files: what a compaction leaves may not ask. */
function asked(messages: readonly Message[]): Message[] {
  const text = { kind: { $case: "text" as const, value: { text: TASK } }, cacheBreakpoint: undefined };
  const known = messages.filter(({ role }) => role === Role.SYSTEM || role === Role.USER);
  return [...known, { role: Role.USER, parts: [text] }];
}

function lastStep(messages: readonly Message[], tokens: number): number {
  const texts = messages.flatMap(({ parts }) => parts.map(partText)).filter((text) => isWhole(text, tokens));
  return Math.max(0, ...texts.flatMap((text) => [...text.matchAll(STEP)].map(([, step]) => Number(step))));
}

/** The window may cut a call, which then writes nothing. */
function isWhole(text: string, tokens: number): boolean {
  const contents = text.split("The content of step ").length - 1;
  return text.split(" word").length - 1 >= contents * tokens;
}

function textOf({ parts }: Message): string {
  return parts.map(partText).join("\n");
}

function partText({ kind }: Part): string {
  if (kind?.$case === "text") return kind.value.text;
  if (kind?.$case === "toolCall") return kind.value.argumentsJson;
  return kind?.$case === "toolResult" ? kind.value.content.map(partText).join("\n") : "";
}

function said(text: string): PlannedAnswer {
  return {
    blocks: [{ block: { $case: "text", value: {} }, tokens: pieces(text), complete: true }],
    reason: FinishReason.STOP,
  };
}

function pieces(text: string): readonly string[] {
  return text.match(/.{1,4}/gsu) ?? [];
}
