/*
 * A conversation in each of the three formats: the request, and the parts of its events or its reply. A turn is
 * `{ role, text, images, calls, results, kept }`: what `user` or `assistant` said with images as data URLs, the calls
 * `{ id, name, text }` of an answer, or in a turn of the role `tool` their results `{ id, text }`; `kept` is its
 * reasoning, `{ format, items }`, which goes back in that format alone. A part is `{ text, reasoning, seal, calls, input,
 * cached, output, error }`, each only if present; `input`, `cached` and `output` count tokens, and a call has the position
 * `at`, its `id` and `name` once, and a part of its arguments as `text`.
 */

/** Returns the JSON of a text, or an empty object. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** Returns a list without its length of zero, which some formats refuse. */
const some = (list) => (list.length > 0 ? list : undefined);
const reasoningOf = ({ kept }, format) => (kept?.format === format ? kept.items : []);

/** Returns the content of a user's turn: its text, or parts where it has images. */
function withImages({ text, images = [] }, textType, imageOf) {
  return images.length === 0 ? text : [...images.map(imageOf), { type: textType, text }];
}

/** Returns the part of an error in any format, or undefined if `body` is not an error. */
function errorOf(body, raw) {
  const error = body.error ?? body.response?.error ?? (body.type === "error" ? body : undefined);
  return error && { error: String(error.message ?? error.type ?? "the answer failed"), raw };
}

const chat = {
  path: "/v1/chat/completions",
  turn(turn) {
    const { role, text, calls = [], results } = turn;
    if (results) return results.map((result) => ({ role, tool_call_id: result.id, content: result.text }));
    if (role === "user")
      return { role, content: withImages(turn, "text", (url) => ({ type: "image_url", image_url: { url } })) };
    return {
      role,
      content: text || null,
      reasoning_content: some(reasoningOf(turn, "chat"))?.join(""),
      tool_calls: some(
        calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.text } })),
      ),
    };
  },
  body: ({ model, system, turns, most, tools, schema, stream, parallel, ...more }) => ({
    model,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...turns.flatMap(chat.turn)],
    max_tokens: most,
    temperature: more.temperature,
    top_p: more.topP,
    stop: more.stop,
    seed: more.seed,
    reasoning_effort: more.effort,
    prompt_cache_key: more.cacheKey,
    tools: tools?.map((tool) => ({ type: "function", function: tool })),
    parallel_tool_calls: tools && !parallel ? false : undefined,
    response_format: schema && { type: "json_schema", json_schema: { name: "answer", strict: true, schema } },
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  }),
  event: ({ choices = [], usage }) => chat.said(choices[0]?.delta, usage),
  reply: ({ choices = [], usage }) => [chat.said(choices[0]?.message, usage)],
  said: ({ content, reasoning_content: reasoning, tool_calls: calls = [] } = {}, usage) => ({
    text: content,
    reasoning,
    seal: reasoning,
    calls: calls.map(({ index, id, function: of = {} }, at) => ({
      ...{ at: index ?? at, id, name: of.name, text: of.arguments },
    })),
    input: usage?.prompt_tokens,
    cached: usage?.prompt_tokens_details?.cached_tokens,
    output: usage?.completion_tokens,
  }),
};

const messages = {
  path: "/v1/messages",
  turn(turn) {
    const { role, text, calls = [], results } = turn;
    if (results)
      return {
        role: "user",
        content: results.map(({ id, text: content }) => ({ type: "tool_result", tool_use_id: id, content })),
      };
    if (role === "user") return { role, content: withImages(turn, "text", messages.image) };
    const used = calls.map(({ id, name, text: given }) => ({ type: "tool_use", id, name, input: parsed(given) }));
    const content = [...reasoningOf(turn, "messages"), ...(text ? [{ type: "text", text }] : []), ...used];
    return { role, content: content.length === 1 && text ? text : content };
  },
  image(url) {
    const [, media_type, data] = /^data:(.*?);base64,(.*)$/.exec(url) ?? [];
    return { type: "image", source: { type: "base64", media_type, data } };
  },
  body: ({ model, system, turns, most, tools, schema, stream, parallel, effort, ...more }) => ({
    model,
    max_tokens: most,
    system: system || undefined,
    messages: turns.map(messages.turn),
    temperature: more.temperature,
    top_p: more.topP,
    stop_sequences: more.stop,
    metadata: more.cacheKey && { user_id: more.cacheKey },
    tools: tools?.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
    tool_choice: tools && !parallel ? { type: "auto", disable_parallel_tool_use: true } : undefined,
    output_config: (schema || effort) && { effort, format: schema && { type: "json_schema", schema } },
    ...(stream && { stream: true }),
  }),
  event({ type, index: at, delta = {}, content_block: block, message, usage }) {
    if (block?.type === "tool_use") return { calls: [{ at, id: block.id, name: block.name }] };
    if (delta.type === "input_json_delta") return { calls: [{ at, text: delta.partial_json }] };
    if (type !== "content_block_delta") return messages.usage(message?.usage ?? usage);
    const { text, thinking: reasoning, signature } = delta;
    return { text, reasoning, seal: signature && { signature } };
  },
  reply: ({ content = [], usage }) => [
    ...content.map(({ type, id, name, input, text, thinking, signature }, at) => ({
      ...{ text, reasoning: thinking, seal: signature && { signature } },
      calls: type === "tool_use" ? [{ at, id, name, text: JSON.stringify(input) }] : [],
    })),
    messages.usage(usage),
  ],
  usage({
    input_tokens: rest,
    cache_read_input_tokens: cached = 0,
    cache_creation_input_tokens: made = 0,
    ...usage
  } = {}) {
    const input = rest === undefined ? undefined : rest + cached + made;
    return { input, cached: input && cached, output: usage.output_tokens };
  },
};

const responses = {
  path: "/v1/responses",
  turn(turn) {
    const { role, text, calls = [], results } = turn;
    if (results) return results.map(({ id, text: output }) => ({ type: "function_call_output", call_id: id, output }));
    if (role === "user") return { role, content: withImages(turn, "input_text", responses.image) };
    return [
      ...reasoningOf(turn, "responses"),
      ...(text ? [{ role, content: text }] : []),
      ...calls.map((c) => ({ type: "function_call", call_id: c.id, name: c.name, arguments: c.text })),
    ];
  },
  image: (url) => ({ type: "input_image", detail: "auto", image_url: url }),
  body: ({ model, system, turns, most, tools, schema, stream, parallel, effort, ...more }) => ({
    model,
    instructions: system || undefined,
    input: turns.flatMap(responses.turn),
    max_output_tokens: most,
    temperature: more.temperature,
    top_p: more.topP,
    prompt_cache_key: more.cacheKey,
    reasoning: effort && { effort, summary: "auto" },
    include: effort && ["reasoning.encrypted_content"],
    tools: tools?.map((tool) => ({ type: "function", strict: false, ...tool })),
    parallel_tool_calls: tools && !parallel ? false : undefined,
    text: schema && { format: { type: "json_schema", name: "answer", strict: true, schema } },
    store: false,
    ...(stream && { stream: true }),
  }),
  event({ type, delta, output_index: at, item, response }) {
    if (type === "response.output_text.delta") return { text: delta };
    if (/^response\.reasoning_(summary_)?text\.delta$/.test(type)) return { reasoning: delta };
    if (type === "response.output_item.added" && item.type === "function_call")
      return { calls: [{ at, id: item.call_id, name: item.name }] };
    if (type === "response.function_call_arguments.delta") return { calls: [{ at, text: delta }] };
    if (type === "response.output_item.done" && item.type === "reasoning") return { seal: item };
    return responses.usage(response?.usage ?? undefined);
  },
  reply: ({ output = [], usage }) => [
    ...output.map(({ type, content = [], summary, ...item }, at) => ({
      text: content.map(({ text = "" }) => text).join(""),
      reasoning: summary?.map(({ text }) => text).join(""),
      seal: type === "reasoning" ? { type, summary, ...item } : undefined,
      calls: type === "function_call" ? [{ at, id: item.call_id, name: item.name, text: item.arguments }] : [],
    })),
    responses.usage(usage),
  ],
  usage: ({ input_tokens: input, input_tokens_details: details, output_tokens: output } = {}) => ({
    input,
    cached: details?.cached_tokens,
    output,
  }),
};

/** The formats by their names on the page. */
export const FORMATS = { chat, messages, responses };

/** Returns the reasoning of an answer as its next request has it; `seals` came with it, each behind its text. */
export function keptReasoning(format, seals, texts) {
  if (format !== "messages") return seals;
  return seals.map((seal, at) => ({ type: "thinking", thinking: texts[at] ?? "", ...seal }));
}

/** Reads a stream: `take` gets the part of each event, `note` each piece of its text and `saw` each event, as they come. */
export async function readEvents(format, stream, { take, note, saw }) {
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
      if (data === undefined) continue;
      const event = data === "[DONE]" ? data : JSON.parse(data);
      saw(event);
      if (event !== data) take(errorOf(event, data) ?? FORMATS[format].event(event));
    }
  }
}

/** Reads a reply that is not a stream, or the error in its place. */
export async function readReply(format, reply, { take, note }) {
  const text = await reply.text();
  note(text);
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    take({ error: `The reply of status ${reply.status} is no JSON.`, raw: text });
    return;
  }
  const error = errorOf(body, text);
  for (const part of error ? [error] : FORMATS[format].reply(body)) take(part);
}
