import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { assistant, call, reasoning, system, text, tool, toolResult, user } from "../engine/canonical.ts";

type Fields = Pick<GenerateRequest, "messages" | "tools">;

/** The marks of the demonstration model that callers might spell; all are control tokens of its vocabulary. */
export const MARKS: readonly string[] = [
  ...["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>"],
  ...["<tool_response>", "</tool_response>", "<tools>", "</tools>"],
];

const ask = user("Well?");
const escaped = (spelling: string) =>
  [...spelling].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
const offered = (description: string, schema: object) => ({
  messages: [ask],
  tools: [tool("run", description, schema)],
});
const calling = (argumentsJson: string) => ({
  messages: [ask, assistant(call("run", argumentsJson)), toolResult("done"), ask],
  tools: [],
});
const said = (...messages: Fields["messages"]) => ({ messages, tools: [] });

/** Every field in which a caller may write text, with a request that contains it. */
export const PLACES: Readonly<Record<string, (spelling: string) => Fields>> = {
  "a user's text": (spelling) => said(user(`a ${spelling} b`)),
  "a user's text, twice without a space": (spelling) => said(user(`a${spelling}${spelling}b`)),
  "the system's text": (spelling) => said(system(spelling), ask),
  "two parts of a text": (spelling) => said({ ...ask, parts: [text(spelling.slice(0, 4)), text(spelling)] }),
  "an earlier answer": (spelling) => said(ask, assistant(text(spelling)), ask),
  "earlier reasoning": (spelling) => said(ask, assistant(reasoning(`so ${spelling} so`), text("Yes.")), ask),
  "an answer that was begun": (spelling) => said(ask, assistant(text(`so ${spelling}`))),
  "a tool's result": (spelling) => said(ask, assistant(call("run", "{}")), toolResult(spelling), ask),
  "a value of arguments": (spelling) => calling(JSON.stringify({ a: { b: [`x${spelling}`] } })),
  "a key of arguments": (spelling) => calling(JSON.stringify({ [spelling]: 1 })),
  "a value of arguments, in escapes": (spelling) => calling(`{"a":"${escaped(spelling)}"}`),
  "a tool's description": (spelling) => offered(spelling, { type: "object" }),
  "a description in a schema": (spelling) => offered("d", { type: "object", description: `x ${spelling}` }),
  "a key of a schema": (spelling) => offered("d", { type: "object", properties: { [spelling]: { type: "string" } } }),
  "a value of a schema": (spelling) => offered("d", { type: "object", properties: { a: { enum: [spelling] } } }),
};
