/*
 * Short chat templates with the marks of the families' public ones and their constructs: recursive macros, namespaces,
 * type tests, filters, text methods, slices. The wording is of this repository.
 */

/** ChatML with calls as JSON objects, and the reasoning of the last turn only. */
const chatml = (thinks: boolean): string => `
{%- macro turn(role, body) %}{{ '<|im_start|>' + role + '\\n' + body + '<|im_end|>' + '\\n' }}{% endmacro %}
{%- set ns = namespace(last=messages | length - 1, searching=true) %}
{%- for m in messages[::-1] %}
  {%- set index = (messages | length - 1) - loop.index0 %}
  {%- if ns.searching and m.role == "user" and not (m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
    {%- set ns.searching = false %}{% set ns.last = index %}
  {%- endif %}
{%- endfor %}
{%- if tools %}
  {{- '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
  {{- "Tools:\\n<tools>" }}{% for tool in tools %}{{ "\\n" }}{{ tool | tojson }}{% endfor %}{{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}{{- turn('system', messages[0].content) }}{% endif %}
{%- for m in messages %}
  {%- if (m.role == "user") or (m.role == "system" and not loop.first) %}{{- turn(m.role, m.content) }}
  {%- elif m.role == "assistant" %}
    {%- set content = m.content if m.content is string else '' %}{% set thought = '' %}
    {%- if m.reasoning_content is string %}{% set thought = m.reasoning_content %}
    {%- elif '</think>' in content %}{% set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% endif %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if ${thinks} and loop.index0 > ns.last and (loop.last or thought) %}{{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}{% endif %}
    {{- content.lstrip('\\n') }}
    {%- for call in m.tool_calls or [] %}
      {%- if (loop.first and content) or not loop.first %}{{- '\\n' }}{% endif %}
      {%- if call.function %}{% set call = call.function %}{% endif %}
      {{- '<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' }}
      {%- if call.arguments is string %}{{- call.arguments }}{% else %}{{- call.arguments | tojson }}{% endif %}{{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == "tool" %}
    {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}{{- '<|im_start|>user' }}{% endif %}
    {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}{{- '<|im_end|>\\n' }}{% endif %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}`;

/** Marks with bars, and calls with arguments as text, optionally in a code block. */
const bars = (open: string, close: string): string => `
{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(is_first=false, is_tool=false, is_output_first=true, opening='', is_last_user=false) %}
{%- for m in messages if m['role'] == 'system' %}
  {%- set ns.opening = m['content'] if loop.first else ns.opening + '\\n\\n' + m['content'] %}
{%- endfor %}
{%- if tools is defined and tools is not none %}
  {%- set listed = namespace(text='Tools:') %}
  {%- for tool in tools %}{% set listed.text = listed.text + '\\n' + tool.function.name + ': ' + (tool.function.parameters | tojson) %}{% endfor %}
  {%- set ns.opening = ns.opening + '\\n\\n' + listed.text %}
{%- endif %}
{{- bos_token }}{{- ns.opening }}
{%- for m in messages %}
  {%- if m['role'] == 'user' %}{% set ns.is_tool = false %}{% set ns.is_last_user = true %}{{- '<｜User｜>' + m['content'] }}{% endif %}
  {%- if m['role'] == 'assistant' %}
    {%- set content = m['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>', 1)[1] %}{% endif %}
    {%- if ns.is_last_user %}{{- '<｜Assistant｜>' }}{% endif %}{% set ns.is_last_user = false %}
    {%- if m['tool_calls'] is defined and m['tool_calls'] is not none %}
      {%- set ns.is_first = false %}
      {%- for call in m['tool_calls'] %}
        {%- if not ns.is_first %}{{- content + '<｜tool▁calls▁begin｜>' }}{% set ns.is_first = true %}{% endif %}
        {{- '<｜tool▁call▁begin｜>' + call['function']['name'] + '${open}' + call['function']['arguments'] + '${close}' }}
      {%- endfor %}
      {{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
    {%- else %}{{- content + '<｜end▁of▁sentence｜>' }}{% endif %}
  {%- endif %}
  {%- if m['role'] == 'tool' %}{{- '<｜tool▁output▁begin｜>' + m['content'] + '<｜tool▁output▁end｜>' }}{% set ns.is_tool = true %}{% endif %}
{%- endfor -%}
{%- if add_generation_prompt and ns.is_last_user %}{{- '<｜Assistant｜>' }}{% if not thinking %}{{- '</think>' }}{% else %}{{- '<think>' }}{% endif %}{% endif %}`;

/** Sections of calls, numbered by their ids. */
const sections = (thinks: boolean): string => `
{%- macro named(m) -%}{{ m.get('name') or m.get('role') }}{%- endmacro -%}
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson(separators=(',', ':')) }}<|im_end|>{%- endif -%}
{%- set ns = namespace(at=-1) -%}
{%- for m in messages -%}{%- if m.role == 'assistant' and not m.get('tool_calls') -%}{%- set ns.at = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- set before = messages[:ns.at + 1] -%}{%- set after = messages[ns.at + 1:] -%}
{%- for part in [before, after] -%}
{%- set keeps = loop.last -%}
{%- for m in part -%}
  {%- if m.role == 'user' -%}<|im_user|>{{ named(m) }}<|im_middle|>
  {%- elif m.role == 'assistant' -%}<|im_assistant|>{{ named(m) }}<|im_middle|>
  {%- else -%}<|im_system|>{{ named(m) }}<|im_middle|>{%- endif -%}
  {%- if ${thinks} and m.role == 'assistant' -%}<think>{{ m.get('reasoning_content', '') if keeps }}</think>{%- endif -%}
  {%- if m.role == 'tool' -%}{{ '## Return of ' + m.tool_call_id + '\\n' + m.content }}{%- else -%}{{ m.content }}{%- endif -%}
  {%- if m.role == 'assistant' and m.get('tool_calls') -%}
    <|tool_calls_section_begin|>
    {%- for call in m['tool_calls'] -%}
      <|tool_call_begin|>{{ call['id'] }}<|tool_call_argument_begin|>{% if call['function']['arguments'] is string %}{{ call['function']['arguments'] }}{% else %}{{ call['function']['arguments'] | tojson }}{% endif %}<|tool_call_end|>
    {%- endfor -%}
    <|tool_calls_section_end|>
  {%- endif -%}
  <|im_end|>
{%- endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}`;

/** Alternating turns, tools before the last user message, and several forms of calls. */
const brackets = (call: string, thinks: boolean): string => `
{%- if messages[0]["role"] == "system" %}{% set opening = messages[0]["content"] %}{% set spoken = messages[1:] %}{% else %}{% set spoken = messages %}{% endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- set users = spoken | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for m in spoken %}
  {%- if not (m.role == "tool" or (m.tool_calls is defined and m.tool_calls is not none)) %}
    {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("Roles have to take turns.") }}{% endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- endif %}
{%- endfor %}
{{- bos_token }}{% if opening is defined %}{{- '[SYSTEM_PROMPT]' ~ opening ~ '[/SYSTEM_PROMPT]' }}{% endif %}
{%- for m in spoken %}
  {%- if m["role"] == "user" %}
    {%- if tools is not none and (m == users[-1]) %}
      {{- "[AVAILABLE_TOOLS][" }}
      {%- for tool in tools %}{% set tool = tool.function %}
        {{- '{"type": "function", "function": {' }}
        {%- for key, val in tool.items() if key != "return" %}{% if val is string %}{{- '"' + key + '": "' + val + '"' }}{% else %}{{- '"' + key + '": ' + val | tojson }}{% endif %}{% if not loop.last %}{{- ", " }}{% endif %}{% endfor %}
        {{- "}}" }}{% if not loop.last %}{{- ", " }}{% else %}{{- "]" }}{% endif %}
      {%- endfor %}
      {{- "[/AVAILABLE_TOOLS]" }}
    {%- endif %}
    {{- "[INST]" + m["content"] + "[/INST]" }}
  {%- elif m.tool_calls is defined and m.tool_calls is not none %}
    {%- if ${thinks} and m.reasoning_content %}{{- '[THINK]' + m.reasoning_content + '[/THINK]' }}{% endif %}
    {%- for tool_call in m.tool_calls %}
      {%- if not tool_call.id is defined or tool_call.id | length != 9 %}{{- raise_exception("An id of another length.") }}{% endif %}
      ${call}
    {%- endfor %}
    {{- eos_token }}
  {%- elif m["role"] == "assistant" %}{{- m["content"] | trim + eos_token }}
  {%- elif m["role"] == "tool" %}{{- '[TOOL_RESULTS]{"content": ' + m.content | string + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
  {%- else %}{{- raise_exception("No such role.") }}{% endif %}
{%- endfor %}`;

const jsonCall = `{{- ("[TOOL_CALLS][" if loop.first else ", ") + (tool_call.function | tojson)[:-1] + ', "id": "' + tool_call.id + '"}' }}{% if loop.last %}{{- "]" }}{% endif %}`;
const argsCall = `{{- "[TOOL_CALLS]" + tool_call.function.name + "[CALL_ID]" + tool_call.id + "[ARGS]" + (tool_call.function.arguments | tojson if tool_call.function.arguments is not string else tool_call.function.arguments) }}`;

/** Messages under headers that name a channel; of the calls of a turn only the first is written. */
const channels = `
{%- macro said(head, body) %}{{ '<|start|>' + head + '<|message|>' + body + '<|end|>' }}{% endmacro %}
{%- set ns = namespace(called=none) %}
{%- if reasoning_effort is not defined %}{% set reasoning_effort = "medium" %}{% endif %}
{{- said("system", "Answer in channels.\\nReasoning: " + reasoning_effort) }}
{%- if messages[0].role == "system" %}{% set opening = messages[0].content %}{% set rest = messages[1:] %}
{%- else %}{% set opening = "" %}{% set rest = messages %}{% endif %}
{%- if opening or tools %}
  {{- "<|start|>developer<|message|>" + opening }}
  {%- for tool in tools or [] %}{% set tool = tool.function %}
    {{- "\\ntype " + tool.name + " = (" }}
    {%- for name, fields in (tool.parameters.properties or {}).items() %}
      {{- name + ("" if name in (tool.parameters.required or []) else "?") + ": " ~ (fields | tojson) }}{% if not loop.last %}{{- ", " }}{% endif %}
    {%- endfor %}{{- ")" }}
  {%- endfor %}
  {{- "<|end|>" }}
{%- endif %}
{%- for m in rest %}
  {%- if m.role == "assistant" and m.tool_calls %}
    {%- set call = m.tool_calls[0].function %}{% set ns.called = call.name %}
    {%- set later = namespace(answer=false) %}
    {%- for next in rest[loop.index:] %}{% if next.role == "assistant" and "tool_calls" not in next %}{% set later.answer = true %}{% endif %}{% endfor %}
    {%- if m.content and m.thinking %}{{- raise_exception("Words or thoughts, and not both.") }}{% endif %}
    {%- if (m.content or m.thinking) and not later.answer %}{{- said("assistant<|channel|>analysis", m.content or m.thinking) }}{% endif %}
    {{- "<|start|>assistant to=" }}{{- "functions." + call.name + "<|channel|>commentary " + "json<|message|>" }}
    {{- call.arguments | tojson }}{{- "<|call|>" }}
  {%- elif m.role == "assistant" %}{{- said("assistant<|channel|>final", m.content) }}
  {%- elif m.role == "tool" and ns.called is none %}{{- raise_exception("A result without a call.") }}
  {%- elif m.role == "tool" %}{{- said("functions." + ns.called + " to=assistant<|channel|>commentary", m.content | tojson) }}
  {%- elif m.role == "user" %}{{- said("user", m.content) }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}`;

/** Values with sorted bare keys, and the results of a turn's calls inside the turn. */
const markedTexts = `
{%- macro quoted(words) -%}<|"|>{{ words }}<|"|>{%- endmacro -%}
{%- macro said(value) -%}
  {%- if value is none -%}null
  {%- elif value is string -%}{{ quoted(value) }}
  {%- elif value is boolean -%}{{ 'true' if value else 'false' }}
  {%- elif value is mapping -%}{{ '{' + members(value) + '}' }}
  {%- elif value is sequence -%}[{%- for each in value -%}{{ said(each) }}{%- if not loop.last %},{% endif -%}{%- endfor -%}]
  {%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{%- macro members(object) -%}
  {%- set ns = namespace(any=false) -%}
  {%- for key, value in object | dictsort -%}{%- if ns.any %},{% endif -%}{%- set ns.any = true -%}{{ key }}:{{ said(value) }}{%- endfor -%}
{%- endmacro -%}
{%- set thinks = enable_thinking | default(false) -%}
{%- set ns = namespace(user=0, open=false) -%}
{%- for m in messages if m['role'] == 'user' -%}{%- set ns.user = ns.user + 1 -%}{%- endfor -%}
{{- bos_token -}}
{%- if thinks or tools or messages[0]['role'] == 'system' -%}
  {{- '<|turn>system\n' -}}{%- if thinks -%}{{- '<|think|>\n' -}}{%- endif -%}
  {%- if messages[0]['role'] == 'system' -%}{{- messages[0]['content'] | trim -}}{%- endif -%}
  {%- for tool in tools or [] -%}
    {{- '<|tool>declaration:' + tool['function']['name'] + '{' -}}
    {%- set about = {'description': tool['function'].get('description') or '', 'parameters': tool['function']['parameters']} -%}
    {{- members(about) | trim -}}{{- '}<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}
{%- for m in messages -%}
  {%- if m['role'] == 'assistant' -%}
    {%- if not ns.open -%}{{- '<|turn>model\n' -}}{%- endif -%}
    {%- set thought = m.get('reasoning') or m.get('reasoning_content') -%}
    {%- if thought and ns.user == 0 -%}{{- '<|channel>thought\n' + thought + '\n<channel|>' -}}{%- endif -%}
    {%- for call in m.get('tool_calls') or [] -%}
      {{- '<|tool_call>call:' + call['function']['name'] + '{' -}}
      {%- if call['function']['arguments'] is mapping -%}{{- members(call['function']['arguments']) -}}
      {%- else -%}{{- raise_exception('No object.') -}}{%- endif -%}
      {{- '}<tool_call|>' -}}
    {%- endfor -%}
    {%- set results = namespace(more=true, count=0) -%}
    {%- for next in messages[loop.index:] if m.get('tool_calls') -%}
      {%- if next['role'] != 'tool' -%}{%- set results.more = false -%}{%- endif -%}
      {%- if results.more -%}
        {%- set results.count = results.count + 1 -%}
        {%- set of = namespace(name=next.get('name') or 'unknown') -%}
        {%- for call in m['tool_calls'] if call.get('id') == next.get('tool_call_id') -%}{%- set of.name = call['function']['name'] -%}{%- endfor -%}
        {{- '<|tool_response>response:' + of.name + '{value:' + said(next['content']) + '}<tool_response|>' -}}
      {%- endif -%}
    {%- endfor -%}
    {%- set words -%}{%- for part in (m['content'] or '').split('<channel|>') -%}{{- part.split('<|channel>')[0] -}}{%- endfor -%}{%- endset -%}
    {{- words | trim -}}
    {%- set ns.open = results.count > 0 and not words | trim -%}
    {%- if m.get('tool_calls') and results.count == 0 -%}{{- '<|tool_response>' -}}{%- elif not ns.open -%}{{- '<turn|>\n' -}}{%- endif -%}
  {%- elif m['role'] != 'tool' and not (loop.first and m['role'] == 'system') -%}
    {%- if m['role'] == 'user' -%}{%- set ns.user = ns.user - 1 -%}{%- endif -%}
    {%- set ns.open = false -%}{{- '<|turn>' + m['role'] + '\n' + m['content'] | trim + '<turn|>\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {%- if not ns.open -%}{{- '<|turn>model\n' -}}{%- if not thinks -%}{{- '<|channel>thought\n<channel|>' -}}{%- endif -%}
  {%- elif thinks -%}{{- '<|channel>thought\n' -}}{%- endif -%}
{%- endif -%}`;

/**
 * Templates in the forms of families' public ones, by profile: some for each rule about ids, arguments and reasoning of
 * the history.
 */
export const PROFILE_SHAPES: Readonly<Record<string, string>> = {
  "deepseek-r1": bars("\\n```json\\n", "\\n```<｜tool▁call▁end｜>"),
  "deepseek-v3": bars("\\n```json\\n", "\\n```<｜tool▁call▁end｜>"),
  "deepseek-v3.1": bars("<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
  "gemma-4": markedTexts,
  "gpt-oss": channels,
  hermes: chatml(false),
  "hermes-thinking": chatml(true),
  "kimi-k2": sections(false),
  "kimi-k2-thinking": sections(true),
  magistral: brackets(argsCall, true),
  mistral: brackets(jsonCall, false),
  "mistral-args": brackets(argsCall, false),
  qwen3: chatml(true),
};
