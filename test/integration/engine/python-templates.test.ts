import { beforeAll, describe, expect, test } from "vitest";
import { ChatTemplate } from "../../../engine/conversation/chat-template.ts";
import { modelHistory } from "../../../engine/conversation/history/model-history.ts";
import { ControlTokens } from "../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles, type ModelProfile } from "../../../engine/profiles/profile.ts";
import { assistant, call, toolResult, user } from "../../support/engine/canonical.ts";
import { FAMILY_TEMPLATES } from "../../support/engine/family-templates.ts";
import { type GeneratedConversation, generatedConversation } from "../../support/templates/generated-conversations.ts";
import { PROFILE_SHAPES } from "../../support/templates/profile-shapes.ts";
import {
  noJinja,
  type PythonRender,
  type PythonRendered,
  pythonMessages,
  pythonTools,
  renderedByPython,
} from "../../support/templates/python-rendering.ts";

/** The number of conversations that each template renders. */
const CONVERSATIONS = 20;
const PROFILES = builtInProfiles();
const TOKENS = { bosToken: "<s>", eosToken: "</s>" };
/** Special tokens that are parts of the generated texts, so that placeholders represent many of them. */
const CONTROL_TOKENS = new ControlTokens(["<b>", "gęślą", "Oslo?"].map((text) => ({ text, stripsLeft: false })));

const templateOf = (source: string, profile?: ModelProfile, tokens = new ControlTokens([])) =>
  new ChatTemplate({
    ...TOKENS,
    source,
    controlTokens: tokens,
    ...(profile && {
      callIds: profile.callIds,
      historyArguments: profile.historyArguments,
      historyReasoning: profile.historyReasoning,
      reasoningOn: profile.thinking?.on ?? {},
      reasoningOff: profile.thinking?.off ?? {},
    }),
  });

const textOf = (template: ChatTemplate, conversation: GeneratedConversation) =>
  template
    .render(conversation)
    .map(({ text }) => text)
    .join("");

/** The fields of a profile on which the messages of a template depend. */
type Rules = Pick<ModelProfile, "callIds" | "historyArguments" | "historyReasoning"> &
  Partial<Pick<ModelProfile, "thinking">>;

/** The input for Python's rendering of the same prompt, as transformers does it. */
function wanted(template: ChatTemplate, conversation: GeneratedConversation, profile: Rules): PythonRender {
  const { callIds, thinking } = profile;
  const history = modelHistory(conversation.messages, { turns: template.turns, callIds, images: false });
  return {
    source: template.source,
    variables: {
      messages: pythonMessages(history, profile),
      tools: pythonTools(conversation.tools),
      documents: null,
      add_generation_prompt: true,
      enable_thinking: conversation.reasoning,
      ...(conversation.reasoning ? thinking?.on : thinking?.off),
      bos_token: TOKENS.bosToken,
      eos_token: TOKENS.eosToken,
    },
  };
}

/** Parts of templates, each with a variable `v` of a call's arguments, and the Jinja feature that it covers. */
const ARGUMENTS = `{"text": "It's \\"so\\"\\n\\u2028 🙂", "whole": 3, "real": 1.0, "small": 1e-07, "large": 12345678901234567890,
  "yes": true, "no": false, "nothing": null, "list": [1, "a", null, [true]], "map": {"b": 2, "A": "x", "items": 0}, "items": [], "2": 2}`;
const PARTS: Readonly<Record<string, readonly string[]>> = {
  "values that are written": [
    "{{ v.text }}{{ v.whole }}{{ v.real }}{{ v.small }}{{ v.large }}{{ v.yes }}{{ v.nothing }}{{ v.none_such }}",
    "{{ v.list }}{{ v.map }}{{ v }}{{ (1, 2) }}{{ {} }}{{ {1: 'a'} }}",
    "{{ 1 / 2 }} {{ 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 0.1 + 0.2 }} {{ 1.0 * 3 }}",
    "{{ v.list | string }}{{ v.nothing | string }}{{ v.no | string }}{{ v.real ~ v.yes ~ none ~ 'x' }}",
  ],
  "values as JSON": [
    "{{ v | tojson }}{{ v | tojson(indent=2) }}{{ v | tojson(separators=(',', ':')) }}{{ v | tojson(sort_keys=true) }}",
    "{{ v | tojson(ensure_ascii=true) }}{{ v.map | tojson(indent=0) }}{{ [] | tojson(indent=2) }}{{ 1.5 | tojson }}",
  ],
  "keys and methods of one name": [
    "{% for k, x in v.map.items() %}{{ k }}={{ x }};{% endfor %}{{ v['items'] }}{{ v.map['items'] }}{{ v.map.get('items', 1) }}",
    "{{ v.map.keys() | list }}{{ v.map.values() | list }}{{ 'keys' in v }}{{ '2' in v }}{{ v.list[-1] }}{{ v.list[1:] }}{{ v.list[::-1] }}",
  ],
  "tests of types": [
    "string number integer float boolean none mapping sequence iterable defined undefined true false callable"
      .split(" ")
      .map((name) => `{% for k, x in v.items() %}{{ k if x is ${name} }} {% endfor %}{{ v.none_such is ${name} }}\n`)
      .join(""),
    "{{ 3 is odd }}{{ 3 is not even }}{{ 'a' is lower }}{{ 'A' is upper }}{{ '' is upper }}",
  ],
  comparisons: [
    "{{ v.real == 1 }}{{ v.yes == 1 }}{{ v.nothing == v.none_such }}{{ v.list == [1, 'a', none, [true]] }}{{ [1] == (1, 2) }}{{ v.map == {'A': 'x', 'b': 2, 'items': 0} }}",
    "{{ 'a' < 'b' }}{{ 1 in v.list }}{{ 'b' in v.map }}{{ [true] in v.list }}{{ 'x' not in v.none_such }}{{ 'so' in v.text }}",
  ],
  "methods of texts": [
    "{{ ' a b  c '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a  b c'.split(None, 1) }}{{ ''.split() }}{{ ''.split(',') }}",
    "{{ 'xxaxx'.strip('x') }}{{ 'xxaxx'.lstrip('x') }}{{ 'xyaxy'.rstrip('yx') }}{{ '  a '.strip() }}{{ 'a b-c'.title() }}{{ 'aB'.capitalize() }}",
    "{{ 'a-b'.replace('-', '+') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.startswith(('x', 'a')) }}{{ 'ab'.endswith('b') }}{{ ', '.join(['a', 'b']) }}",
    "{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'abc'.find('c') }}{{ 'aXa'.count('a') }}{{ 'ab'.removeprefix('a') }}{{ 'ab'.removesuffix('b') }}",
    "{{ '{}-{}-{n}'.format(1, true, n=none) }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ 'a\\nb\\u2028c'.splitlines() }}{{ '12'.isdigit() }}{{ 'a' * 3 }}",
  ],
  filters: [
    "{{ [3, 1, 2] | sort }}{{ ['b', 'A', 'a'] | sort }}{{ [1, 2] | max }}{{ [] | min is defined }}{{ [1, 2, 3] | sum }}{{ [1, 1.0, 'a', 'A'] | unique | list }}",
    "{{ v.map | dictsort }}{{ v.map | items | list }}{{ v.map | length }}{{ v.map | list }}{{ v.map | count }}{{ 'ab' | list }}{{ 'ab' | reverse }}{{ [1, 2] | reverse | list }}",
    "{{ [v.map, {'b': 3}] | map(attribute='b') | join(', ') }}{{ ['a', 'b'] | map('upper') | list }}{{ [v.map, {}] | map(attribute='A', default='-') | list }}",
    "{{ [v.map, {'b': 3}] | selectattr('A', 'defined') | list }}{{ [v.map, {'b': 3}] | rejectattr('b', 'equalto', 3) | list }}{{ [0, 1, 2] | select | list }}{{ [0, 1, 2] | reject('odd') | list }}{{ none | selectattr('a') | list }}",
    "{{ 'a\\n\\nb\\n' | indent(2) }}{{ 'a\\nb' | indent(2, true) }}{{ 'a\\n\\nb' | indent('> ', blank=true) }}{{ '<a href=\"x\">' | e }}",
    "{{ '3.7' | int }}{{ 'x' | int(5) }}{{ '3' | float }}{{ 3.7 | int }}{{ -3 | abs }}{{ 2.5 | round }}{{ 2.567 | round(2) }}{{ 2.1 | round(method='ceil') | int }}{{ true | int }}",
    "{{ v.none_such | default('d') }}{{ none | default('d') }}{{ '' | default('d', true) }}{{ 'a' | d(1) }}{{ [1, true, none] | join('-') }}{{ [] | first is defined }}{{ 'xay' | trim('xy') }}",
  ],
  scopes: [
    "{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}{{ a }}",
    "{% for i in [1, 2] %}{% if b is defined %}seen{% endif %}{% set b = 1 %}{% endfor %}",
    "{% macro m(x, y=2) %}{{ x }}{{ y }}{{ z is defined }}{% endmacro %}{% for z in [1] %}{{ m(z) }}{{ m(1, y=none) }}{% endfor %}",
    "{% macro box(t) %}[{{ t }}{{ caller() }}]{% endmacro %}{% call box('a') %}b{{ v.whole }}{% endcall %}",
    "{% macro deep(x) %}{% if x is mapping %}{% for k, y in x.items() %}{{ k }}{{ deep(y) }}{% endfor %}{% else %}{{ x }}{% endif %}{% endmacro %}{{ deep({'a': {'b': 1}}) }}",
    "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}x{% break %}{% endif %}{% set ns.n = ns.n + i %}{{ loop.index }}{{ loop.last }}{% else %}none{% endfor %}{{ ns.n }}",
    "{% for k, (a, b) in [(1, (2, 3))] %}{{ k }}{{ a }}{{ b }}{% endfor %}{% for c in 'né' %}{{ c }}.{% endfor %}{% for x in v.none_such %}{% else %}empty{% endfor %}{% for x in [1, 2] if x > 5 %}{% else %}none{% endfor %}",
    "{% set t %}a {{ v.whole }}{% endset %}{{ t }}{% set p, q = 1, 2 %}{{ p }}{{ q }}{% filter upper %}ab{% endfilter %}{% for i in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ loop.previtem }}{% endfor %}",
  ],
  "expressions as Python groups them": [
    "{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 1 in [1] and 2 not in [1] }}{{ not 1 in [2] }}{{ 2 + 3 * 4 ** 2 }}{{ -2 ** 2 }}{{ (2 + 3) * 4 }}{{ 7 - 2 - 1 }}",
    "{{ 'a' if v.yes }}{{ 'a' if v.no }}.{{ 'a' if v.no else 'b' if v.no else 'c' }}{{ 1 if v.yes else 2 if v.no else 3 }}{{ 'x' ~ 1 * 2 }}",
    "{{ -3 | abs }}{{ [3, 1] | sort | join(',') }}{{ 'a' 'b' }}{{ 'it\\'s\\t\\u00e9\\x41\\q' }}{{ 1_000 }}{{ 1e3 }}{{ 2.5 }}{{ (1,) }}{{ () }}{{ 1, 2 }}",
    "{% set l = [0, 1, 2, 3, 4] %}{{ l[1:3] }}{{ l[::-1] }}{{ l[-2:] }}{{ l[:-2] }}{{ l[4:1:-2] }}{{ l[::2] }}{{ 'héllo'[1:4] }}{{ 'abc'[::-1] }}{{ l[9:] }}{{ (1, 2, 3)[1:] }}{{ l[-9:2] }}",
    "{{ 9 is divisibleby(3) }}{{ 9 is divisibleby 2 }}{{ 2 is eq(2) }}{{ 2 is not eq 3 }}{{ none is sameas none }}{{ 'a' is in ['a'] }}{{ v.a is undefined or v.b is defined }}{{ [1, 2, 3] | select('gt', 1) | list }}",
    "{{ [[1, [2]]].0.1.0 }}{{ {'a': {'b': 1}}.a.b }}{{ {'a': 1}['a'] }}{{ 'abc'.upper().lower()[1] }}{{ 'a,b'.split(',')[1] }}{{ range(*[1, 4]) | list }}{{ dict(a=1, **{'b': 2}) }}",
  ],
  "blocks that run others": [
    "{% macro wrap(a, b='x') %}[{{ a }}{{ b }}{{ caller() if caller else '' }}]{% endmacro %}{{ wrap(1) }}{{ wrap(1, 2) }}{{ wrap(b=3, a=4) }}{% call wrap(5) %}in{% endcall %}",
    "{% macro rows(items) %}{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(one, at) rows(['a', 'b']) %}{{ at }}{{ one }};{% endcall %}",
    "{% macro all(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ all(1, 2, 3, b=4) }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}{% filter upper | trim %} ab {% endfilter %}{% set c | upper %}x{% endset %}{{ c }}",
    "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.first }}{% set s = a %}{% endfor %}{{ s }}",
  ],
  "blocks and blanks": [
    "x\n  {%+ if true +%}\n  y\n\t{% endif %}\n  {{ 1 }}  \n{{- 2 -}}  \n 3 {#- no -#} 4 {# {{ 5 }} #} {% raw %}\n {{ 6 }} {% endraw %}\n7\n\n",
    "{% raw -%}  {% if %} {%- endraw -%}  8 {{ '}}' }}{{ {'a': {}} }}{% set a = '%}' %}{{ a }}",
    "a\n  {% if true %}\n  b\n  {%- endif %}\nc {%- generation %} d {% endgeneration -%} e\n{# no #}\nf\n",
    "{{ strftime_now('%Y-%m-%d %d %b %B %A %a %y %%') }}",
  ],
};

/** The intended differences, with each rendering. */
const DIFFERENCES: Readonly<Record<string, readonly [source: string, ours: string, python: string]>> = {
  // A caller is better served by a prompt than by an error.
  "a member of an undefined value": ["{{ messages[0].none_such.part }}.", ".", "UndefinedError"],
  "a text and another type": ["{{ 'a' + [1] }}", "a[1]", "TypeError"],
  "a list that is changed": ["{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}", "[1, 2]", "SecurityError"],
  // The model must see the number as it wrote it, so that its cached prefix is reused.
  "a number in another form": ["{{ messages[1].tool_calls[0].function.arguments.real | tojson }}", "10E-1", "1.0"],
};

const conversations = Array.from({ length: CONVERSATIONS }, (_, seed) => generatedConversation(seed));
const ANY: Rules = { callIds: "any", historyArguments: "value", historyReasoning: "reasoning_content" };
const withArguments = (json: string): GeneratedConversation => {
  return { messages: [user("Hi"), assistant(call("f", json)), toolResult("ok")], tools: [], reasoning: false };
};
const PART_CASES = Object.entries(PARTS).map(([what, parts]) => {
  const sources = parts.map(
    (part) => `{% set v = messages[1].tool_calls[0].function.arguments %}{% if v.text %}${part}{% endif %}`,
  );
  return { what, templates: sources.map((source) => templateOf(source)) };
});
const DIFFERENCE_CASES = Object.entries(DIFFERENCES).map(([what, [source, ours, python]]) => {
  return { what, template: templateOf(source), ours, python };
});
/** Python has no form for a template without tools. */
const SHAPES = [...Object.entries(PROFILE_SHAPES), ...Object.entries(FAMILY_TEMPLATES)].filter(
  ([name]) => name !== "generic",
);
const PROFILE_CASES = SHAPES.map(([name, source]) => {
  const profile = PROFILES.find((each) => each.name === name)?.profile;
  if (!profile) throw new Error(`there is no profile ${name}`);
  // In the second, placeholders represent many texts: the prompt must be the same.
  return { name, profile, templates: [templateOf(source, profile), templateOf(source, profile, CONTROL_TOKENS)] };
});

describe.skipIf(noJinja !== "")("templates and Python's Jinja with transformers' settings", () => {
  const rendered = new Map<string, PythonRendered>();
  const renderOf = (template: ChatTemplate | undefined, conversation: GeneratedConversation, rules: Rules) => {
    if (!template) throw new Error("There is no template.");
    return wanted(template, conversation, rules);
  };
  const python = (render: PythonRender) => {
    const { text, error } = rendered.get(JSON.stringify(render)) ?? {};
    return text ?? error;
  };

  beforeAll(() => {
    const renders = [
      ...PART_CASES.flatMap(({ templates }) => templates.map((one) => wanted(one, withArguments(ARGUMENTS), ANY))),
      ...DIFFERENCE_CASES.map(({ template }) => wanted(template, withArguments('{"real": 10E-1}'), ANY)),
      ...PROFILE_CASES.flatMap(({ templates, profile }) =>
        conversations.map((conversation) => renderOf(templates[0], conversation, profile)),
      ),
    ];
    // One process for all of them.
    for (const [index, one] of renderedByPython(renders).entries()) {
      rendered.set(JSON.stringify(renders[index]), one);
    }
  });

  test.each(PART_CASES)(
    "templates and Python's Jinja with transformers' settings write the same in parts: $what",
    ({ templates }) => {
      const conversation = withArguments(ARGUMENTS);
      const theirs = templates.map((template) => python(wanted(template, conversation, ANY)));
      expect(templates.map((template) => textOf(template, conversation))).toEqual(theirs);
    },
  );

  test.each(PROFILE_CASES)(
    "templates and Python's Jinja with transformers' settings write the same in the shape of $name",
    ({ templates, profile }) => {
      for (const conversation of conversations) {
        const theirs = python(renderOf(templates[0], conversation, profile));
        for (const template of templates) expect(textOf(template, conversation)).toBe(theirs);
      }
    },
  );

  test.each(DIFFERENCE_CASES)(
    "a template renders unlike Python's Jinja for $what",
    ({ template, ours, python: theirs }) => {
      const conversation = withArguments('{"real": 10E-1}');
      expect(textOf(template, conversation)).toBe(ours);
      expect(python(wanted(template, conversation, ANY))).toContain(theirs);
    },
  );
});
