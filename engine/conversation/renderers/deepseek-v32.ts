import { type TemplateMessage, type TemplateTool, templateJson } from "../history/template-messages.ts";
import { ASSISTANT, BEGIN, type DsmlNames, dsmlCalls, dsmlExample, END, THINK, USER } from "./dsml.ts";
import { type Renderer, refusal } from "./renderer.ts";

const NAMES: DsmlNames = { calls: "function_calls", invoke: "invoke", parameter: "parameter" };

/** DeepSeek-V3.2: a user's turn and the results of calls end with the beginning of the model's turn. */
export const deepSeekV32: Renderer = ({ messages, tools, variables, opensTurn, mark }) => {
  const thinks = variables.thinking === true || variables.enable_thinking === true;
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  const opening = (index: number, before: string) => {
    if (index === messages.length - 1 && !opensTurn) return "";
    return before + (thinks && index >= lastUser ? THINK.open : THINK.close);
  };
  let prompt = BEGIN + (tools.length > 0 ? `\n\n${toolsText(tools)}` : "");
  /** The calls of the last turn, and how many of them have a result. */
  let called = 0;
  let answered = 0;
  for (const [index, message] of messages.entries()) {
    const { role, content } = message;
    prompt += mark(index);
    if (role === "tool") {
      answered += 1;
      if (answered > called) throw refusal("A tool result has no call before it.");
      if (answered === 1) prompt += "\n\n<function_results>";
      prompt += `\n<result>${content}</result>`;
      if (answered === called) prompt += `\n</function_results>${opening(index, "\n\n")}`;
      continue;
    }
    called = message.tool_calls?.length ?? 0;
    answered = 0;
    if (role === "system") prompt += content;
    else if (role === "user") prompt += USER + content + opening(index, ASSISTANT);
    else prompt += turn(message, thinks && index > lastUser);
  }
  return prompt;
};

function turn(message: TemplateMessage, thinks: boolean): string {
  const thought = thinks ? (message.reasoning_content ?? "") + THINK.close : "";
  return thought + message.content + dsmlCalls(message, NAMES) + END;
}

/** The text about tools of the model's own format, which it was trained with. */
function toolsText(tools: readonly TemplateTool[]): string {
  const lines = [
    "## Tools",
    "You have access to a set of tools you can use to answer the user's question.",
    `You can invoke functions by writing a "<｜DSML｜${NAMES.calls}>" block like the following as part of your reply to the user:`,
    dsmlExample(NAMES, ["FUNCTION_NAME", "FUNCTION_NAME2"]),
    'String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).',
    "If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:",
    `<｜DSML｜${NAMES.calls}>\n...\n</｜DSML｜${NAMES.calls}>`,
    "<function_results>\n...\n</function_results>",
    `${THINK.open}...thinking about results${THINK.close}`,
    "Here are the functions available in JSONSchema format:",
    "<functions>",
    ...tools.map((tool) => templateJson(tool.function)),
    "</functions>\n",
  ];
  return lines.join("\n");
}
