/*
 * What a conversation is in each of the three formats: the request, and what its events or its reply say. A part that is
 * read is `{ text, reasoning, input, output, error }`, each only where there is one; `input` and `output` count tokens.
 */

const withSystem = (system, turns) => (system ? [{ role: "system", content: system }, ...turns] : turns);

/** Returns the part that an error of any format is, or undefined where `body` is none. */
function errorOf(body) {
  const error = body.error ?? body.response?.error ?? (body.type === "error" ? body : undefined);
  return error && { error: String(error.message ?? error.type ?? "the answer failed") };
}

const chat = {
  path: "/v1/chat/completions",
  body: ({ model, system, turns, most, stream }) => ({
    model,
    messages: withSystem(system, turns),
    max_tokens: most,
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  }),
  event({ choices = [], usage }) {
    const delta = choices[0]?.delta ?? {};
    return { text: delta.content, reasoning: delta.reasoning_content ?? delta.reasoning, ...chat.usage(usage) };
  },
  reply({ choices = [], usage }) {
    const message = choices[0]?.message ?? {};
    return { text: message.content, reasoning: message.reasoning_content ?? message.reasoning, ...chat.usage(usage) };
  },
  usage: (usage) => usage && { input: usage.prompt_tokens, output: usage.completion_tokens },
};

const messages = {
  path: "/v1/messages",
  body: ({ model, system, turns, most, stream }) => ({
    model,
    max_tokens: most,
    ...(system && { system }),
    messages: turns,
    ...(stream && { stream: true }),
  }),
  event({ type, delta = {}, message, usage }) {
    if (type === "content_block_delta") return { text: delta.text, reasoning: delta.thinking };
    if (type === "message_start") return { input: message?.usage?.input_tokens };
    return type === "message_delta" ? { output: usage?.output_tokens, input: usage?.input_tokens } : {};
  },
  reply({ content = [], usage = {} }) {
    const all = (field) => content.map((block) => block[field] ?? "").join("");
    return { text: all("text"), reasoning: all("thinking"), input: usage.input_tokens, output: usage.output_tokens };
  },
};

const responses = {
  path: "/v1/responses",
  body: ({ model, system, turns, most, stream }) => ({
    model,
    ...(system && { instructions: system }),
    input: turns,
    max_output_tokens: most,
    store: false,
    ...(stream && { stream: true }),
  }),
  event({ type, delta, response }) {
    if (type === "response.output_text.delta") return { text: delta };
    if (type === "response.reasoning_summary_text.delta" || type === "response.reasoning_text.delta")
      return { reasoning: delta };
    return { input: response?.usage?.input_tokens, output: response?.usage?.output_tokens };
  },
  reply({ output = [], usage = {} }) {
    const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
    const text = parts.map((part) => part.text ?? "").join("");
    return { text, input: usage.input_tokens, output: usage.output_tokens };
  },
};

/** The formats by the names that the page has for them. */
export const FORMATS = { chat, messages, responses };

/** Reads the events of a stream; `take` gets each part as it comes. */
export async function readEvents(format, stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const data = /^data: ?(.*)$/.exec(line)?.[1];
      if (data === undefined || data === "[DONE]") continue;
      const event = JSON.parse(data);
      take(errorOf(event) ?? FORMATS[format].event(event));
    }
  }
}

/** Reads a reply that is not a stream, or the error in its place. */
export async function readReply(format, reply) {
  const body = await reply.json().catch(() => ({ error: { message: `status ${reply.status}` } }));
  return errorOf(body) ?? FORMATS[format].reply(body);
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns a request as a command for a shell, with the key in a variable of its own. */
export function curlOf(origin, { path, body, stream }) {
  return [
    `curl ${stream ? "-N " : ""}${quoted(origin + path)} \\`,
    `  -H "Authorization: Bearer $SVC_API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${quoted(JSON.stringify(body, undefined, 2))}`,
  ].join("\n");
}
