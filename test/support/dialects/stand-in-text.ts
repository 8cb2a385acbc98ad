/*
 * The chat template and tokenizer of the stand-in engines: ChatML, one token per character, and one for each spelling
 * of a mark.
 */

const SPELLINGS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
const FIRST = 2_000_000;
const PIECES = new RegExp(`(${SPELLINGS.map((mark) => mark.replaceAll("|", "\\|")).join("|")})`);

export const END_TOKEN = FIRST + 1;

export function toTokens(text: string): readonly number[] {
  return text.split(PIECES).flatMap((piece) => {
    const mark = SPELLINGS.indexOf(piece);
    return mark >= 0 ? [FIRST + mark] : [...piece].map((char) => char.codePointAt(0) ?? 0);
  });
}

export function toText(tokens: readonly number[]): string {
  return tokens.map((token) => SPELLINGS[token - FIRST] ?? String.fromCodePoint(token)).join("");
}

type Fields = Readonly<Record<string, unknown>>;

export function renderChat({ messages, tools, continue_final_message: continues }: Fields): string {
  const list = Array.isArray(messages) ? messages : [];
  const shown = Array.isArray(tools)
    ? `# Tools\n${tools.map((tool) => JSON.stringify(tool.function)).join("\n")}\n`
    : "";
  const turns = list.map(({ role, content }) => `<|im_start|>${role}\n${textOf(content)}<|im_end|>\n`).join("");
  if (continues !== true) return `${shown}${turns}<|im_start|>assistant\n`;
  return `${shown}${turns.slice(0, -"<|im_end|>\n".length)}`;
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return String(content ?? "");
  return content.map((part) => (part.type === "text" ? part.text : "<image>")).join("");
}

export type SpokenAnswer = {
  readonly reasoning?: readonly string[];
  readonly text?: readonly string[];
  readonly calls?: readonly { readonly name: string; readonly arguments: readonly string[] }[];
  /** How the answer ends. Default: `stop`. */
  readonly finish?: "stop" | "length" | "abort";
  /** The number of cached prompt tokens. Default: not reported. */
  readonly cachedTokens?: number;
};

export function rawPieces({ reasoning, text = [], calls = [], finish }: SpokenAnswer): readonly string[] {
  const said = calls.flatMap((call, index) => {
    const isCut = finish === "length" && index === calls.length - 1;
    const open = `${index > 0 || text.length > 0 ? "\n" : ""}<tool_call>\n{"name": "${call.name}", "arguments": `;
    return [open, ...call.arguments, ...(isCut ? [] : ["}\n</tool_call>"])];
  });
  return [...(reasoning ? ["<think>\n", ...reasoning, "\n</think>\n\n"] : []), ...text, ...said].filter(Boolean);
}
