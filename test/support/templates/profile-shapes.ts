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

/** Templates in the forms of families' public ones, by profile: one for each form of the history's reasoning. */
export const PROFILE_SHAPES: Readonly<Record<string, string>> = {
  "gemma-4": markedTexts,
  "gpt-oss": channels,
  hermes: chatml(false),
  "hermes-thinking": chatml(true),
};
