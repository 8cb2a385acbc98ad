/*
 * A conversation in each of the three formats: the request, and the parts of its events or its reply. A part is
 * `{ text, reasoning, calls, input, cached, output, error }`, each only if present; `input`, `cached` and `output` count
 * tokens, and a tool call is `{ at, name, text }`: its position, its name once, and a part of its arguments.
 */

const withSystem = (system, turns) => (system ? [{ role: "system", content: system }, ...turns] : turns);

/** Returns the part of an error in any format, or undefined if `body` is not an error. */
function errorOf(body, raw) {
  const error = body.error ?? body.response?.error ?? (body.type === "error" ? body : undefined);
  return error && { error: String(error.message ?? error.type ?? "the answer failed"), raw };
}

const chatCalls = (calls = []) =>
  calls.map(({ index, function: { name, arguments: text } = {} }, at) => ({ at: index ?? at, name, text }));

const chat = {
  path: "/v1/chat/completions",
  body: ({ model, system, turns, most, temperature, tools, schema, stream }) => ({
    model,
    messages: withSystem(system, turns),
    max_tokens: most,
    temperature,
    tools: tools?.map((tool) => ({ type: "function", function: tool })),
    response_format: schema && { type: "json_schema", json_schema: { name: "answer", strict: true, schema } },
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  }),
  event: ({ choices = [], usage }) => chat.said(choices[0]?.delta, usage),
  reply: ({ choices = [], usage }) => chat.said(choices[0]?.message, usage),
  said: ({ content, reasoning_content, reasoning, tool_calls } = {}, usage) => ({
    text: content,
    reasoning: reasoning_content ?? reasoning,
    calls: chatCalls(tool_calls),
    ...(usage && {
      input: usage.prompt_tokens,
      cached: usage.prompt_tokens_details?.cached_tokens,
      output: usage.completion_tokens,
    }),
  }),
};

const messages = {
  path: "/v1/messages",
  body: ({ model, system, turns, most, temperature, tools, schema, stream }) => ({
    model,
    max_tokens: most,
    system: system || undefined,
    messages: turns,
    temperature,
    tools: tools?.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
    output_config: schema && { format: { type: "json_schema", schema } },
    ...(stream && { stream: true }),
  }),
  event({ type, index, delta = {}, content_block: block, message, usage }) {
    if (type === "content_block_start" && block.type === "tool_use")
      return { calls: [{ at: index, name: block.name }] };
    if (type === "content_block_delta" && delta.type === "input_json_delta")
      return { calls: [{ at: index, text: delta.partial_json }] };
    if (type === "content_block_delta") return { text: delta.text, reasoning: delta.thinking };
    return messages.usage(message?.usage ?? usage);
  },
  reply({ content = [], usage }) {
    const all = (field) => content.map((block) => block[field] ?? "").join("");
    const calls = content.flatMap(({ type, name, input }, at) =>
      type === "tool_use" ? [{ at, name, text: JSON.stringify(input) }] : [],
    );
    return { text: all("text"), reasoning: all("thinking"), calls, ...messages.usage(usage) };
  },
  usage({
    input_tokens: rest,
    cache_read_input_tokens: cached = 0,
    cache_creation_input_tokens = 0,
    output_tokens,
  } = {}) {
    const input = rest === undefined ? undefined : rest + cached + cache_creation_input_tokens;
    return { input, cached: input && cached, output: output_tokens };
  },
};

const responses = {
  path: "/v1/responses",
  body: ({ model, system, turns, most, temperature, tools, schema, stream }) => ({
    model,
    instructions: system || undefined,
    input: turns,
    max_output_tokens: most,
    temperature,
    tools: tools?.map((tool) => ({ type: "function", ...tool })),
    text: schema && { format: { type: "json_schema", name: "answer", strict: true, schema } },
    store: false,
    ...(stream && { stream: true }),
  }),
  event({ type, delta, output_index: at, item, response }) {
    if (type === "response.output_text.delta") return { text: delta };
    if (type === "response.reasoning_summary_text.delta" || type === "response.reasoning_text.delta")
      return { reasoning: delta };
    if (type === "response.output_item.added" && item.type === "function_call")
      return { calls: [{ at, name: item.name }] };
    if (type === "response.function_call_arguments.delta") return { calls: [{ at, text: delta }] };
    return responses.usage(response?.usage ?? undefined);
  },
  reply({ output = [], usage }) {
    const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
    const text = parts.map((part) => part.text ?? "").join("");
    const calls = output.flatMap(({ type, name, arguments: given }, at) =>
      type === "function_call" ? [{ at, name, text: given }] : [],
    );
    return { text, calls, ...responses.usage(usage) };
  },
  usage: ({ input_tokens: input, input_tokens_details: details, output_tokens: output } = {}) => ({
    input,
    cached: details?.cached_tokens,
    output,
  }),
};

/** The formats by their names on the page. */
export const FORMATS = { chat, messages, responses };

/** Reads the events of a stream: `take` gets each part, and `note` the text of the stream, as they come. */
export async function readEvents(format, stream, take, note) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    note(value);
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const data = /^data: ?(.*)$/.exec(line)?.[1];
      if (data === undefined || data === "[DONE]") continue;
      const event = JSON.parse(data);
      take(errorOf(event, data) ?? FORMATS[format].event(event));
    }
  }
}

/** Reads a reply that is not a stream, or the error in its place; `note` gets its text. */
export async function readReply(format, reply, note) {
  const text = await reply.text();
  note(text);
  try {
    const body = JSON.parse(text);
    return errorOf(body, text) ?? FORMATS[format].reply(body);
  } catch {
    return { error: `The reply of status ${reply.status} is no JSON.`, raw: text };
  }
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns a request as a command for a shell, with the key in a variable of its own. */
export function curlOf(origin, { path, text, stream }) {
  return [
    `curl ${stream ? "-N " : ""}${quoted(origin + path)} \\`,
    `  -H "authorization: Bearer $KEY" \\`,
    `  -H 'content-type: application/json' \\`,
    `  -d ${quoted(text)}`,
  ].join("\n");
}
