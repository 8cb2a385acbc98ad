/*
 * Small chat templates with the checks of the families' public ones, one per profile: their rejections, their dropped
 * or moved messages, and their forms of arguments and ids. They have nothing else in common.
 */

const BEGIN = "{{ bos_token }}{% if tools %}TOOLS {{ tools | tojson }}\n{% endif %}";
const END = "{% if add_generation_prompt %}MODEL: {% endif %}";

const each = (body: string, { before = "", messages = "messages" } = {}): string =>
  `${BEGIN}${before}{% for m in ${messages} %}${body}{% endfor %}${END}`;

const PLAIN = "{{ m.role + ': ' + m.content }}\n";
const RESULT = "RESULT {{ m.tool_call_id + ' ' + m.content }}\n";
/**
 * Calls whose arguments are written member by member, with the filter that does not support null in every interpreter.
 */
const CALLS_AS_MEMBERS =
  "{% for c in m.tool_calls or [] %}CALL {{ c.id + ' ' + c.function.name }}{% for k, v in c.function.arguments | items %} {{ k }}=" +
  "{% set v = v | tojson if v is mapping or (v is sequence and v is not string) else v | string %}{{ v }}{% endfor %}\n{% endfor %}";
const CALLS_AS_JSON =
  "{% for c in m.tool_calls or [] %}CALL {{ c.id + ' ' + c.function.name }} {{ c.function.arguments | tojson }}\n{% endfor %}";
const CALLS_AS_TEXT =
  "{% for c in m.tool_calls or [] %}{{ 'CALL ' + c.id + ' ' + c.function.name + ' ' + c.function.arguments }}\n{% endfor %}";
const SPOKEN = (calls: string) => `{% if m.role == 'tool' %}${RESULT}{% else %}${PLAIN}${calls}{% endif %}`;

/** Accepts any order. */
const freely = each(SPOKEN(CALLS_AS_JSON));
const freelyByMember = each(SPOKEN(CALLS_AS_MEMBERS));

/** Rejects a system message after the first message, and a conversation without a user message. */
const systemFirst = each(
  `{% if m.role == 'system' and not loop.first %}{{ raise_exception('A system message has to stand first.') }}{% endif %}${SPOKEN(CALLS_AS_MEMBERS)}`,
  {
    before:
      "{% if not (messages | selectattr('role', 'equalto', 'user') | list) %}{{ raise_exception('No user speaks.') }}{% endif %}",
  },
);

/** Drops all system messages but the first, and rejects a result without a call. */
const firstSystem = (calls: string): string =>
  each(
    `{% if m.role == 'tool' and ns.calls == 0 %}{{ raise_exception('A result without a call.') }}{% endif %}` +
      `{% if m.tool_calls %}{% set ns.calls = 1 %}{% endif %}{% if m.role != 'system' or loop.first %}${SPOKEN(calls)}{% endif %}`,
    { before: "{% set ns = namespace(calls=0) %}" },
  );
const systemDropped = firstSystem(CALLS_AS_JSON);
/** Drops all calls of a turn but the first, too. */
const firstOnly = firstSystem(CALLS_AS_JSON.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]"));

const systemMoved = each(`{% if m.role != 'system' %}${SPOKEN(CALLS_AS_TEXT)}{% endif %}`, {
  before: "{% for m in messages if m.role == 'system' %}{{ m.content }}\n{% endfor %}",
});

const countedIds = each(
  "{% for c in m.tool_calls or [] %}{% if not c.id.startswith('functions.' + c.function.name + ':') %}{{ raise_exception('An id of another form.') }}{% endif %}{% endfor %}" +
    SPOKEN(CALLS_AS_JSON),
);

/** Requires alternating user and model turns, ids of nine characters, and no model turn without text or calls. */
const inTurns = each(
  "{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}{% if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('Roles must alternate user/assistant/...') }}{% endif %}{% set ns.turn = ns.turn + 1 %}" +
    "{% elif m.role == 'system' %}{{ raise_exception('One system message at most.') }}{% endif %}" +
    "{% if m.role == 'assistant' and not m.tool_calls and not m.content %}{{ raise_exception('The model says nothing.') }}{% endif %}" +
    "{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception('An id of another length.') }}{% endif %}{% endfor %}" +
    SPOKEN(CALLS_AS_JSON),
  {
    before:
      "{% set ns = namespace(turn=0) %}{% set spoken = messages %}{% if messages[0].role == 'system' %}{{ 'system: ' + messages[0].content }}\n{% set spoken = messages[1:] %}{% endif %}",
    messages: "spoken",
  },
);

const oneCall = each(
  `{% if m.tool_calls and m.tool_calls | length != 1 %}{{ raise_exception('One call at a time!') }}{% endif %}${SPOKEN(CALLS_AS_JSON)}`,
);

/** A template with the checks of each family, by the name of its profile. */
export const FAMILY_TEMPLATES: Readonly<Record<string, string>> = {
  "deepseek-r1": systemMoved,
  "deepseek-v3": systemMoved,
  "deepseek-v3.1": systemMoved,
  "deepseek-v3.2": freely,
  "deepseek-v4": freely,
  "deepseek-v4.1": freely,
  "glm-4.5": freely,
  "glm-4.7": freely,
  generic: each(PLAIN),
  hermes: freely,
  "hermes-thinking": freely,
  "gemma-4": freely,
  "gpt-oss": firstOnly,
  "kimi-k2": countedIds,
  "kimi-k2-thinking": countedIds,
  "kimi-k3": countedIds,
  "llama-3": oneCall,
  magistral: inTurns,
  "minimax-m2": systemDropped,
  "minimax-m3": freely,
  mistral: inTurns,
  "mistral-args": inTurns,
  qwen3: freely,
  "qwen3-coder": freelyByMember,
  "qwen3.5": systemFirst,
};
