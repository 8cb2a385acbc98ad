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

/** Tools and calls, member by member, between XML-like marks. */
const functionMarks = (thinks: boolean): string => `
{%- macro extras(map, known) %}{% if map is mapping %}{% for key in map if key not in known %}
{{- '\\n<' ~ key ~ '>' ~ (map[key] | tojson | safe if map[key] is mapping or (map[key] is sequence and map[key] is not string) else map[key] | string) ~ '</' ~ key ~ '>' }}
{%- endfor %}{% endif %}{% endmacro %}
{%- if messages[0]["role"] == "system" %}{% set opening = messages[0]["content"] %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- if opening is defined %}{{- "<|im_start|>system\\n" + opening }}{% elif tools is iterable and tools | length > 0 %}{{- "<|im_start|>system\\nTools follow." }}{% endif %}
{%- if tools is iterable and tools | length > 0 %}
  {{- "\\n<tools>" }}
  {%- for tool in tools %}
    {%- if tool.function is defined %}{% set tool = tool.function %}{% endif %}
    {{- "\\n<function>\\n<name>" ~ tool.name ~ "</name>" }}
    {%- if tool.description is defined %}{{- '\\n<description>' ~ (tool.description | trim) ~ '</description>' }}{% endif %}
    {{- '\\n<parameters>' }}
    {%- if tool.parameters is defined and tool.parameters is mapping and tool.parameters.properties is defined and tool.parameters.properties is mapping %}
      {%- for name, fields in tool.parameters.properties | items %}
        {{- '\\n<parameter>\\n<name>' ~ name ~ '</name>' }}
        {%- if fields.type is defined %}{{- '\\n<type>' ~ (fields.type | string) ~ '</type>' }}{% endif %}
        {{- extras(fields, ['name', 'type']) }}{{- '\\n</parameter>' }}
      {%- endfor %}
    {%- endif %}
    {{- extras(tool.parameters, ['type', 'properties']) }}{{- '\\n</parameters>\\n</function>' }}
  {%- endfor %}
  {{- "\\n</tools>" }}
{%- endif %}
{%- if opening is defined or (tools is iterable and tools | length > 0) %}{{- '<|im_end|>\\n' }}{% endif %}
{%- for m in rest %}
  {%- if m.role == "assistant" %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if ${thinks} and m.reasoning_content %}{{- '<think>\\n' + m.reasoning_content | trim + '\\n</think>\\n\\n' }}{% endif %}
    {{- m.content | trim }}
    {%- for call in m.tool_calls or [] %}
      {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
      {%- for name, value in call.function.arguments | items %}
        {{- '<parameter=' + name + '>\\n' }}
        {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
        {{- value }}{{- '\\n</parameter>\\n' }}
      {%- endfor %}
      {{- '</function>\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == "tool" %}
    {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>user' }}{% endif %}
    {{- '\\n<tool_response>\\n' }}{{ m.content }}{{- '\\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{% endif %}
  {%- else %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% if ${thinks} %}{{- '<think>\\n' if enable_thinking else '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}`;

const argumentPairs = (between: string): string => `[gMASK]<sop>
{%- if tools -%}<|system|>
Tools:
<tools>
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
</tools>
{%- endif -%}
{%- macro seen(content) -%}
  {%- if content is string -%}{{- content }}
  {%- elif content is iterable and content is not mapping -%}{%- for item in content -%}{{- item.text if item is mapping else item }}{%- endfor -%}
  {%- else -%}{{- content }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.user = loop.index0 -%}{% endif %}{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ seen(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not seen(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}<|assistant|>
{%- set thought = '' %}{% set content = seen(m.content) %}
{%- if m.reasoning_content is string %}{% set thought = m.reasoning_content %}{% endif %}
{%- if loop.index0 > ns.user and thought -%}{{ '\\n<think>' + thought.strip() + '</think>' }}{%- else -%}{{ '\\n<think></think>' }}{%- endif -%}
{%- if content.strip() -%}{{ '\\n' + content.strip() }}{%- endif -%}
{% if m.tool_calls %}{% for call in m.tool_calls %}{% set call = call.function %}
{{ '\\n<tool_call>' + call.name }}
{%- set given = call.arguments %}
{% for k, v in given.items() %}${between}<arg_key>{{ k }}</arg_key>${between}<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{%- endfor -%}${between}</tool_call>{% endfor %}{% endif %}
{%- elif m.role == 'tool' -%}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|observation|>' }}{% endif %}
{{- '\\n<tool_response>\\n' }}{{- m.content }}{{- '\\n</tool_response>' }}
{%- elif m.role == 'system' -%}<|system|>
{{ seen(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}{%- endif -%}`;

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

/** Calls whose arguments state whether they are texts, with `gap` in all marks. */
const typedArguments = (block: string, gap = ""): string => `
{{- bos_token -}}
{%- macro pair(key, value) -%}
<｜DSML｜${gap}parameter name="{{ key }}" string="{{ 'true' if value is string else 'false' }}">{{ value if value is string else value | tojson }}</｜DSML｜${gap}parameter>
{% endmacro -%}
{%- for m in messages -%}
  {%- if m.role == 'system' -%}{{ m.content }}
  {%- elif m.role == 'user' -%}{{ '<｜User｜>' ~ m.content }}
  {%- elif m.role == 'tool' -%}{{ '<｜User｜>' if loop.previtem.role != 'tool' }}{{ '<tool_result>' ~ m.content ~ '</tool_result>' }}
  {%- else -%}
    {{- '<｜Assistant｜>' ~ ('<think>' ~ m.reasoning_content if m.reasoning_content else '') ~ '</think>' ~ m.content -}}
    {%- if m.tool_calls -%}
<｜DSML｜${gap}${block}>
{% for call in m.tool_calls -%}
<｜DSML｜${gap}invoke name="{{ call.function.name }}">
{% for key, value in call.function.arguments.items() %}{{ pair(key, value) }}{% endfor -%}
</｜DSML｜${gap}invoke>
{% endfor -%}
</｜DSML｜${gap}${block}>
    {%- endif -%}
    {{- eos_token -}}
  {%- endif -%}
{%- endfor -%}
{%- if tools %}{{ '\\n' ~ tools | map(attribute='function') | map('tojson') | join('\\n') }}{% endif -%}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' ~ ('<think>' if enable_thinking else '</think>') }}{% endif -%}`;

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

/** Tags with attributes, typed arguments, and sorted schemas written by a recursive macro. */
const openTags = `
{%- macro attribute(value) -%}{{- value | string | replace('&', '&amp;') | replace('"', '&quot;') -}}{%- endmacro -%}
{%- macro tag(name, pairs=[]) -%}{{- '<|open|>' + name -}}{%- for pair in pairs -%}{{- ' ' + pair[0] + '="' -}}{{- attribute(pair[1]) -}}{{- '"' -}}{%- endfor -%}{{- '<|sep|>' -}}{%- endmacro -%}
{%- macro sorted(value) -%}
  {%- if value is mapping -%}{{- '{' -}}{%- for key, item in value | dictsort -%}{{- ',' if not loop.first -}}{{- key | tojson -}}{{- ':' -}}{{- sorted(item) -}}{%- endfor -%}{{- '}' -}}
  {%- elif value is string or value is number or value is boolean or value is none -%}{{- value | tojson(ensure_ascii=false) -}}
  {%- else -%}{{- '[' -}}{%- for item in value -%}{{- ',' if not loop.first -}}{{- sorted(item) -}}{%- endfor -%}{{- ']' -}}{%- endif -%}
{%- endmacro -%}
{%- macro kind(value) -%}
  {%- if value is boolean -%}boolean{%- elif value is none -%}null{%- elif value is number -%}number{%- elif value is string -%}string{%- elif value is mapping -%}object{%- else -%}array{%- endif -%}
{%- endmacro -%}
{%- if tools -%}{{- tag('message', [('role', 'system'), ('type', 'tools')]) + sorted(tools) + '<|close|>message<|sep|>' -}}{%- endif -%}
{%- for m in messages -%}
  {{- tag('message', [('role', m.role)]) -}}
  {%- if m.role == 'assistant' and m.get('reasoning_content') -%}{{- tag('think') + m.reasoning_content | trim + '<|close|>think<|sep|>' -}}{%- endif -%}
  {{- m.get('content', '') -}}
  {%- for call in m.get('tool_calls') or [] -%}
    {{- tag('call', [('tool', call.function.name), ('index', loop.index)]) -}}
    {%- for key, value in call.function.arguments.items() -%}
      {{- tag('argument', [('key', key), ('type', kind(value))]) -}}{{- value if value is string else value | tojson -}}{{- '<|close|>argument<|sep|>' -}}
    {%- endfor -%}
    {{- '<|close|>call<|sep|>' -}}
  {%- endfor -%}
  {{- '<|close|>message<|sep|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- tag('message', [('role', 'assistant')]) -}}{%- endif -%}`;

/** Headers with the date, tools before the first user message, and one call per turn. */
const headers = `{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- if messages[0]['role'] == 'system' %}{% set opening = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}{% set opening = "" %}{% endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{% endif %}
{{- "Today is " + date_string + "\\n\\n" }}{{- opening }}{{- "<|eot_id|>" }}
{%- if not tools is none %}
  {%- if messages | length != 0 %}{% set asked = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}{{- raise_exception("There is no user's message for the tools.") }}{% endif %}
  {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
  {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{% endfor %}{{- asked + "<|eot_id|>" }}
{%- endif %}
{%- for m in messages %}
  {%- if not (m.role == 'tool' or 'tool_calls' in m) %}{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
  {%- elif 'tool_calls' in m %}
    {%- if not m.tool_calls | length == 1 %}{{- raise_exception("One call at a time.") }}{% endif %}
    {%- set call = m.tool_calls[0].function %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{{- '{"name": "' + call.name + '", ' }}{{- '"parameters": ' }}{{- call.arguments | tojson }}{{- "}<|eot_id|>" }}
  {%- else %}
    {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}{% if m.content is mapping or (m.content is iterable and m.content is not string) %}{{- m.content | tojson }}{% else %}{{- m.content }}{% endif %}{{- "<|eot_id|>" }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`;

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

/** Calls between XML-like marks; `nested` writes values by a recursive macro and omits null. */
const invoked = (nested: boolean, open: string, close: string, think: string): string => `
{%- set ns_mark = ']<]minimax[>[' if ${nested} else '' -%}
{%- macro xml(value) -%}
  {%- if value is mapping -%}{%- for k, v in value.items() if v is not none -%}{{ ns_mark }}<{{ k }}>{{ xml(v) }}{{ ns_mark }}</{{ k }}>{%- endfor -%}
  {%- elif value is iterable and value is not string -%}{%- for item in value -%}{{ ns_mark }}<item>{{ xml(item) }}{{ ns_mark }}</item>{%- endfor -%}
  {%- elif value is none -%}
  {%- elif value is boolean -%}{{ value | tojson }}
  {%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{%- if messages and messages[0].role == "system" -%}{%- set opening = messages[0] -%}{%- set rest = messages[1:] -%}{%- else -%}{%- set opening = none -%}{%- set rest = messages -%}{%- endif -%}
{{- ']~!b[' ~ ']~b]system\\n' ~ (opening.content if opening and opening.content else 'No words.') }}
{%- if tools -%}{{- '\\n<tools>' }}{%- for tool in tools %}{{ '\\n<tool>' ~ tool.function | tojson(ensure_ascii=False) ~ '</tool>' }}{% endfor %}{{- '\\n</tools>' }}{%- endif -%}
{{- '[e~[\\n' }}
{%- set last = namespace(name=none, user=-1) -%}
{%- for m in rest -%}{%- if m.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in rest -%}
  {%- if m.role == 'assistant' -%}
    {{- ']~b]ai' ~ '\\n' }}
    {%- if m.reasoning_content and loop.index0 > last.user -%}{{- '<${think}>\\n' ~ m.reasoning_content ~ '\\n</${think}>\\n\\n' }}{%- endif -%}
    {%- if m.content -%}{{- m.content }}{%- endif -%}
    {%- if m.tool_calls -%}
      {{- '\\n' ~ ns_mark ~ '${open}\\n' }}
      {%- for call in m.tool_calls -%}
        {%- set call = call.function if call.function else call -%}
        {{- ns_mark ~ '<invoke name="' ~ call.name ~ '">' }}
        {%- if ${nested} -%}{{- xml(call.arguments) }}{%- else -%}
          {%- for k, v in call.arguments.items() -%}{{- '\\n<parameter name="' ~ k ~ '">' }}{{- v | tojson(ensure_ascii=False) if v is not string else v }}{{- '</parameter>' }}{%- endfor -%}
        {%- endif -%}
        {{- '\\n' ~ ns_mark ~ '</invoke>\\n' }}
      {%- endfor -%}
      {{- ns_mark ~ '${close}' }}
      {%- if m.tool_calls[-1] -%}{%- set last.name = m.tool_calls[-1].function.name -%}{%- endif -%}
    {%- endif -%}
    {{- '[e~[' ~ '\\n' }}
  {%- elif m.role == 'tool' -%}
    {%- if last.name is none -%}{{- raise_exception('A result without a call.') }}{%- endif -%}
    {%- if loop.first or rest[loop.index0 - 1].role != 'tool' -%}{{- ']~b]tool' }}{%- endif -%}
    {{- '\\n<response>' ~ m.content ~ '</response>' }}
    {%- if loop.last or rest[loop.index0 + 1].role != 'tool' -%}{{- '[e~[\\n' -}}{%- endif -%}
  {%- elif m.role == 'user' -%}{{- ']~b]user\\n' ~ m.content ~ '[e~[\\n' }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- ']~b]ai\\n<${think}>\\n' }}{%- endif -%}`;

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

/** A template in the form of each family's public one, by profile. */
export const PROFILE_SHAPES: Readonly<Record<string, string>> = {
  "deepseek-r1": bars("\\n```json\\n", "\\n```<｜tool▁call▁end｜>"),
  "deepseek-v3": bars("\\n```json\\n", "\\n```<｜tool▁call▁end｜>"),
  "deepseek-v3.1": bars("<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
  "deepseek-v3.2": typedArguments("function_calls"),
  "deepseek-v4": typedArguments("tool_calls"),
  "deepseek-v4.1": typedArguments("calls", " "),
  "gemma-4": markedTexts,
  "gpt-oss": channels,
  "glm-4.5": argumentPairs("\n"),
  "glm-4.7": argumentPairs(""),
  hermes: chatml(false),
  "hermes-thinking": chatml(true),
  "kimi-k2": sections(false),
  "kimi-k2-thinking": sections(true),
  "kimi-k3": openTags,
  "llama-3": headers,
  magistral: brackets(argsCall, true),
  "minimax-m2": invoked(false, "<minimax:tool_call>", "</minimax:tool_call>", "think"),
  "minimax-m3": invoked(true, "<tool_call>", "</tool_call>", "mm:think"),
  mistral: brackets(jsonCall, false),
  "mistral-args": brackets(argsCall, false),
  qwen3: chatml(true),
  "qwen3-coder": functionMarks(false),
  "qwen3.5": functionMarks(true),
};
