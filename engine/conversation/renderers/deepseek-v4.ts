import {
  type TemplateCall,
  type TemplateMessage,
  type TemplateTool,
  type TemplateVariables,
  templateJson,
} from "../history/template-messages.ts";
import { ASSISTANT, BEGIN, type DsmlNames, dsmlCalls, dsmlExample, END, THINK, USER } from "./dsml.ts";
import type { Renderer } from "./renderer.ts";

/** How DeepSeek-V4 and V4.1 differ. */
type Form = {
  readonly names: DsmlNames;
  /** Returns the text in front of a conversation with reasoning. */
  readonly effort: (wanted: TemplateVariables[string] | undefined) => string;
  /** The mark of system messages; one behind the first begins a turn of the model as a user's does. */
  readonly system: string | undefined;
};

/** A turn of the prompt: adjacent users and results are one. */
type Turn = {
  readonly role: string;
  readonly parts: readonly string[];
  readonly message: TemplateMessage;
  /** The number of its first message. */
  readonly first: number;
};

const EFFORTS = {
  low: "",
  high: [
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.",
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.",
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n",
  ].join("\n"),
  max: [
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.",
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any surface symptom.",
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no assumption remains unchecked and no error remains undiscovered.\n\n",
  ].join("\n"),
} as const;
/** The message that shows tools where no system message does. */
const NO_SYSTEM: TemplateMessage = { role: "system", content: "" };
const LOW_EFFORTS: readonly unknown[] = ["low", "minimal", "medium"];

/** The numbers of V4.1 for the words; others are taken as they are. */
const LEVELS: Readonly<Record<string, number>> = { low: 50, high: 75, xhigh: 75, max: 100 };

export const DEEPSEEK_V4 = rendererOf({
  names: { calls: "tool_calls", invoke: "invoke", parameter: "parameter" },
  effort: (wanted) => EFFORTS[wanted === "max" ? "max" : LOW_EFFORTS.includes(wanted) ? "low" : "high"],
  system: undefined,
});

export const DEEPSEEK_V41 = rendererOf({
  names: { calls: " calls", invoke: " invoke", parameter: " parameter" },
  effort: (wanted = "high") =>
    `Reasoning Effort: ${LEVELS[String(wanted)] ?? wanted} (range 1-100, the higher the value, the more thorough the reasoning)\n\n`,
  system: "<｜System｜>",
});

function rendererOf({ names, effort, system }: Form): Renderer {
  return ({ messages, tools, variables, opensTurn, mark }) => {
    const isOn = variables.thinking === true || variables.enable_thinking === true;
    const thinks = isOn && variables.reasoning_effort !== "none";
    const added = tools.length > 0 && !messages.some(({ role }) => role === "system") ? [NO_SYSTEM] : [];
    const turns = turnsOf([...added, ...messages]);
    const toolsAt = tools.length > 0 ? turns.findIndex(({ role }) => role === "system") : undefined;
    /** Whether the model's turn begins behind a turn as behind a user's. */
    const isAsked = (role: string, index: number) =>
      role === "user" || (role === "system" && system !== undefined && index > 0);
    const lastAsked = turns.findLastIndex(({ role }, index) => isAsked(role, index));
    // With tools the reasoning of all turns stays.
    const keeps = (index: number) => thinks && (tools.length > 0 || index >= lastAsked);

    const written = turns.map(({ role, message, parts, first }, index) => {
      const isSystem = role === "system";
      const opener = role === "user" ? USER : isSystem && index > 0 ? (system ?? "") : "";
      const shown = index === toolsAt ? `\n\n${toolsText(tools, names)}` : "";
      const begun = mark(first - added.length) + opener;
      if (role === "assistant") {
        const reasoning = keeps(index) ? (message.reasoning_content ?? "") + THINK.close : "";
        return begun + reasoning + message.content + dsmlCalls(message, names) + END;
      }
      const text = begun + parts.join("\n\n") + shown;
      const next = turns[index + 1];
      const isOpen = next ? next.role === "assistant" : opensTurn;
      if (!isOpen || (isSystem && system !== undefined && index === 0)) return text;
      return text + ASSISTANT + (keeps(index) ? THINK.open : THINK.close);
    });

    const words = thinks ? effort(variables.reasoning_effort) : "";
    const isLed = words !== "" || turns[0]?.role === "system";
    return BEGIN + (isLed ? (system ?? "") : "") + words + written.join("");
  };
}

function turnsOf(messages: readonly TemplateMessage[]): readonly Turn[] {
  const turns: Turn[] = [];
  let order: ReadonlyMap<string, number> = new Map();
  let at = 0;
  for (let message = messages[at]; message; message = messages[at]) {
    const first = at;
    const isUsers = message.role === "user" || message.role === "tool";
    do at += 1;
    while (isUsers && isUserOrTool(messages[at]));
    if (message.tool_calls?.length) order = orderOf(message.tool_calls);
    const said = messages.slice(first, at);
    const parts = isUsers ? inOrder(said, order) : [message.content];
    turns.push({ role: isUsers ? "user" : message.role, parts, message, first });
  }
  return turns;
}

function isUserOrTool(message: TemplateMessage | undefined): boolean {
  return message?.role === "user" || message?.role === "tool";
}

function orderOf(calls: readonly TemplateCall[]): ReadonlyMap<string, number> {
  return new Map(calls.flatMap(({ id }, index) => (id === "" ? [] : [[id, index] as const])));
}

/** Returns the texts of users, and between them the results of calls in the order of the calls. */
function inOrder(said: readonly TemplateMessage[], order: ReadonlyMap<string, number>): readonly string[] {
  const place = ({ tool_call_id: id = "" }: TemplateMessage) => order.get(id) ?? 0;
  const results = said.filter(({ role }) => role === "tool").sort((a, b) => place(a) - place(b));
  const ordered = results.values();
  return said.map(({ role, content }) =>
    role === "tool" ? `<tool_result>${ordered.next().value?.content ?? ""}</tool_result>` : content,
  );
}

/** The text about tools of the model's own format, which it was trained with. */
function toolsText(tools: readonly TemplateTool[], names: DsmlNames): string {
  const { open, close } = THINK;
  const paragraphs = [
    "## Tools",
    `You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜${names.calls}>" block like the following:`,
    dsmlExample(names, ["TOOL_NAME", "TOOL_NAME2"]),
    'String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.',
    `If thinking_mode is enabled (triggered by ${open}), you MUST output your complete reasoning inside ${open}...${close} BEFORE any tool calls or final response.`,
    `Otherwise, output directly after ${close} with tool calls or final response.`,
    "### Available Tool Schemas",
    tools.map((tool) => templateJson(tool.function)).join("\n"),
    "You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n",
  ];
  return paragraphs.join("\n\n");
}
