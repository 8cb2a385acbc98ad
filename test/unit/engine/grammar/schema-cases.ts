/**
 * A case has a name, a schema, the texts that its grammar matches (+), those that it does not (-), and the keywords that it
 * does not enforce (?), separated by " | ". Deeper lines continue the one before.
 */
const ENFORCED = String.raw`
a surrogate pair as escapes
  {"type":"string","maxLength":1}
  + "\ud83d\ude00" | "😀"
  - "\ud83d" | "\ude00" | "ab"
nullable
  {"type":"string","nullable":true}
  + null | "a"
  - 1
integers in a range
  {"type":"integer","minimum":-12,"maximum":105}
  + -12 | -9 | -1 | 0 | 9 | 10 | 99 | 100 | 105
  - -13 | -20 | 106 | 110 | 200 | 1000 | -100 | 007
integers with an old exclusive maximum
  {"type":"integer","maximum":20,"exclusiveMaximum":true}
  + 19 | -3
  - 20 | 21
integers with fractions as bounds
  {"type":"integer","minimum":1.5,"maximum":3.5}
  + 2 | 3
  - 1 | 4
integers with the bounds of safe integers
  {"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}
  + 9007199254740991 | -9007199254740991 | 5
  - 9007199254740992 | -9007199254740992
integers between enormous bounds
  {"type":"integer","minimum":7,"maximum":1.7e+308}
  + 7 | 9999999999999999999
  - 6 | 99999999999999999999
numbers
  {"type":"number"}
  + 0 | -0.5 | 12e-3 | 1.25E+10
  - .5 | 1. | 1e | 1e999 | NaN
positive multiples of a half
  {"type":"number","multipleOf":0.5,"exclusiveMinimum":0}
  + 0.5 | 1.0 | 1 | 10 | 12.5
  - 0 | 0.0 | -0.5 | 0.3 | 00.5
multiples of a quarter
  {"type":"number","multipleOf":0.25}
  + 0 | 0.0 | 0.00 | 0.25 | 0.50 | 3.0 | -0.75 | 100
  - 0.01 | 0.3 | 0. | 1.
multiples of too large a number
  {"type":"integer","multipleOf":1013}
  + 5
  - a
  ? #/multipleOf
an enum
  {"enum":["red","reddish","green",7,1.5,null,true,"q\"\\\n"]}
  + "red" | "reddish" | "green" | 7 | 1.5 | null | true | "q\"\\\n"
  - "re" | "blue" | 8 | false
an enum of objects and lists
  {"enum":[{"a":1,"b":[2,"x"]},[]]}
  + {"a": 1, "b": [2, "x"]} | {"a":1,"b":[2,"x"]} | []
  - {"a":1} | {"b":[2,"x"],"a":1}
an enum under a type and bounds
  {"type":["string","integer"],"enum":["a","abc",1,2.5,null],"maxLength":1}
  + "a" | 1
  - "abc" | 2.5 | null
required and optional properties
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"boolean"},
    "d":{"type":"null"}},"required":["b","d"]}
  + {"b": "x", "d": null} | {"a": 1, "b": "x", "d": null} | {"a":1,"b":"","c":true,"d":null} |
    {"b":"x", "c":false,"d":null}
  - {} | {"a":1} | {"b":"x"} | {"d":null,"b":"x"} | {"b":"x","d":null,"e":1} | {"b":"x",,"d":null} |
    {,"b":"x","d":null} | {"b":1,"d":null}
declared and other properties
  {"type":"object","properties":{"name":{"type":"string"},"no":{"type":"null"}},"required":["name"],
    "additionalProperties":{"type":"integer"}}
  + {"name":"x"} | {"name":"x","n":1} | {"name":"x","names":1, "nam":2,"":3} | {"name":"x","no":null,"é":4}
  - {"name":"x","name":1} | {"name":"x","no":1} | {"n":1} | {"n":1,"name":"x"} | {"name":"x","n":"y"} |
    {"name":"x","n\u006fx":1}
a required property that is not declared
  {"type":"object","properties":{"a":{"type":"null"}},"required":["b"]}
  + {"b":1} | {"a":null,"b":"x"}
  - {} | {"a":null}
arrays
  {"type":"array","items":{"type":"integer"}}
  + [] | [1] | [1, 2,3]
  - [a] | ["1"] | [1,] | 1
tuples
  {"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":1}
  + [1] | [1, "a"]
  - [] | ["a"] | [1,"a",2]
tuples in the old form
  {"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false,"minItems":2}
  + [1,"a"]
  - [1] | [1,"a",1]
unique items
  {"type":"array","items":{"type":"integer"},"uniqueItems":true}
  + [1,1]
  - 1
  ? #/uniqueItems
unique items of a list with a pattern
  {"type":"array","items":{"enum":["a","b"],"pattern":"^a"},"uniqueItems":true}
  + [] | ["a"]
  - ["b"] | ["a","a"]
anyOf
  {"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"string"}}]}
  + 1 | ["a"]
  - "a" | [1]
oneOf distinguished by type, by bounds, and by closed objects
  {"oneOf":[{"type":"string"},{"type":"integer","maximum":3},{"type":"integer","minimum":4},{"type":"object",
    "properties":{"a":{}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{}},
    "required":["b"]}]}
  + "a" | 3 | 4 | {"a":1} | {"b":1}
  - null | {"a":1,"b":1}
nothing unevaluated
  {"allOf":[{"properties":{"a":{"type":"null"}}}],"type":"object","unevaluatedProperties":false}
  + {} | {"a":null}
  - {"b":1}
unevaluated properties with a schema
  {"type":"object","additionalProperties":true,"unevaluatedProperties":{"type":"null"}}
  + {"b":1}
  - 1
  ? #/unevaluatedProperties
anyOf beside other keywords
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
    "anyOf":[{"required":["a"]},{"required":["b"]}]}
  + {"a":1} | {"b":1} | {"a":1,"b":2}
  - {}
allOf of objects
  {"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"minimum":3},
    "b":{"type":"null"}}}]}
  + {"a":3} | {"a":4.5,"b":null}
  - {"a":2} | {} | {"a":"x"}
allOf of anyOf
  {"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"anyOf":[{"type":"string"},{"type":"null"}]}]}
  + "a"
  - 1 | null
the old place of definitions
  {"definitions":{"a/b":{"type":"integer"}},"properties":{"x":{"$ref":"#/definitions/a~1b"}},"required":["x"]}
  + {"x":1}
  - {"x":"a"} | {}
recursion under allOf
  {"$defs":{"a":{"type":"object","properties":{"c":{"$ref":"#/$defs/a"}}},
    "b":{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"c":{"$ref":"#/$defs/b"},"n":{"type":"integer"}}}]}},
    "$ref":"#/$defs/b"}
  + {} | {"c":{"c":{},"n":1},"n":2}
  - {"n":"x"} | {"c":1}
a cyclic alternative
  {"anyOf":[{"$ref":"#"},{"type":"integer"}]}
  + 1
  - "a"
an optional property that can never end
  {"$defs":{"x":{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},"required":["x"]}},"type":"object",
    "properties":{"x":{"$ref":"#/$defs/x"},"y":{"type":"null"}}}
  + {} | {"y":null}
  - {"x":{}}
a forbidden optional property
  {"type":"object","properties":{"a":false,"b":true}}
  + {} | {"b":1}
  - {"a":1}
another document
  {"properties":{"a":{"$ref":"https://example.com/x.json"}}}
  + {} | {"a":1}
  - 1
  ? #/properties/a/$ref
listed objects and lists with exclusions
  {"enum":[{"a":1,"b":[2]},{"a":2},[1],[2],"x",3,null],"not":{"enum":[{"b":[2],"a":1},[2],3]}}
  + {"a":2} | [1] | "x" | null
  - {"a":1,"b":[2]} | [2] | 3
odd keys in paths
  {"properties":{"a secret":{"type":"integer","multipleOf":1013}}}
  + {"a secret":1}
  - 1
  ? #/properties/*/multipleOf
unknown keywords
  {"type":"integer","x-note":{"type":"nonsense"},"title":1,"default":[]}
  + 1
  - a
a type implied by its keywords
  {"properties":{"a":{"minLength":1},"b":{"minimum":1},"c":{"items":{}}}}
  + {"a":"x","b":1,"c":[1]}
  - [] | {"a":""} | {"b":0} | {"c":1}
alternatives of a pattern
  {"type":"string","pattern":"^a$|^b+$|(?:^c)"}
  + "a" | "bb" | "cx"
  - "ab" | "xc" | "d"
groups and quantifiers
  {"type":"string","pattern":"^(?<x>ab|c)*(d?)e{2}f{1,}g*?$"}
  + "eef" | "abcabdeeff" | "ceefgg"
  - "ef" | "abdeeefx" | "aeef"
classes of a pattern
  {"type":"string","pattern":"^[^\\s\"'a-c\\]]\\w\\S\\D.[\\n\\x41\\u00e9\\-]$"}
  + "z_!x(\n" | "\\0é- é" | "z_!xyA"
  - "a_!x(A" | "\"_!x(A" | "z_!1(A" | "z_!x\nA" | "z_!x(B"
a pattern of a control character
  {"type":"string","pattern":"^\\x01$"}
  + "\u0001"
  - "\u0002" | "a"
patterns outside the subset
  {"anyOf":[{"pattern":"(?=a)"},{"pattern":"\\bx"},{"pattern":"(a)\\1"},{"pattern":"\\p{L}"},{"pattern":"a^b"}]}
  + "anything"
  - 1
  ? #/anyOf/0/pattern | #/anyOf/1/pattern | #/anyOf/2/pattern | #/anyOf/3/pattern | #/anyOf/4/pattern
dates
  {"format":"date","type":"string"}
  + "2024-02-29" | "2000-02-29" | "2025-12-31" | "1999-06-30"
  - "2023-02-29" | "1900-02-29" | "2025-13-01" | "2025-06-31" | "2025-1-1" | "2025-00-10" | "2025-01-00"
times
  {"format":"time","type":"string"}
  + "23:59:59Z" | "00:00:00.123+05:30"
  - "24:00:00Z" | "12:60:00Z" | "12:00:00"
uuids
  {"format":"uuid","type":"string"}
  + "123e4567-e89b-12d3-a456-426614174000"
  - "123e4567" | "g23e4567-e89b-12d3-a456-426614174000"
addresses
  {"type":"array","items":{"anyOf":[{"format":"email"},{"format":"ipv4"}]}}
  + ["a.b+c@x-y.org","10.0.0.255"]
  - ["a@b"] | ["1.2.3.256"] | ["@x.org"]
a host without internationalised labels
  {"format":"hostname"}
  + "a" | "ab" | "a-b" | "ab-c" | "a--b" | "abc-d-e--f.Example-1.org" | "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b"
  - "xn--x" | "ab--cd" | "a.xn--x.org" | "-a" | "a-" | "ab-" | "abc-" | "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
an unknown format
  {"type":"string","format":"shade"}
  + "x"
  - 1
a format that is not enforced
  {"type":"string","format":"regex"}
  + "x"
  - 1
  ? #/format
dependencies
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},
    "dependentRequired":{"a":["c"]},"dependentSchemas":{"b":{"properties":{"c":{"minimum":5}}}},"minProperties":1}
  + {"c":1} | {"a":1,"c":1} | {"b":1} | {"b":1,"c":5} | {"a":1,"b":2,"c":7}
  - {} | {"a":1} | {"b":1,"c":4} | {"a":1,"b":1}
references by anchors and addresses
  {"$id":"https://example.org/root","$defs":{"n":{"$anchor":"number","type":"integer"},"t":{"$id":"text",
    "$defs":{"inner":{"type":"string"}},"$ref":"#/$defs/inner"}},"type":"array",
    "prefixItems":[{"$ref":"#number"},{"$ref":"text"},{"$ref":"https://example.org/text#/$defs/inner"}],"minItems":3}
  + [1,"a","b"]
  - [1,2,3] | ["a","a","a"] | [1,"a"]
nothing unevaluated inside an alternative, apart from the others
  {"type":"object","allOf":[{"properties":{"a":{}}},{"properties":{"b":{}},"unevaluatedProperties":false}]}
  + {"a":1}
  - {"c":1}
  ? #/allOf/1/unevaluatedProperties
`;

/** Cases of grammars that allow undeclared properties. */
const UNDECLARED = `
they stand anywhere, and a few declared ones in any order, each once
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["a","b"]}
  + {"b": "", "a": 1} | {"x": 1, "b": "", "y": [], "a": 1, "c": null, "z": 0} | {"a": 1, "b": ""}
  - {"a": 1} | {"x": 1} | {"a": 1, "b": "", "a": 2} | {"b": 1, "a": 1} | {"a": 1, "b": "", } | {}
they stand between many declared ones; required ones come once, the others anywhere
  {"type":"object","properties":{"p0":{"type":"integer"},"p1":{"type":"integer"},"p2":{"type":"integer"},"p3":{"type":"integer"},
    "p4":{"type":"integer"},"p5":{"type":"integer"},"p6":{"type":"integer"},"p7":{"type":"integer"},"p8":{"type":"integer"}},
    "required":["p1","p8"]}
  + {"p1": 1, "p8": 1} | {"p8": 1, "p5": 1, "p1": 1, "p0": 1} |
    {"x": "", "p0": 1, "y": 1, "z": 1, "p1": 1, "p5": 1, "p8": 1, "x": 1}
  - {"p1": 1} | {"p8": 1, "p1": 1, "p8": 1} | {"p1": "", "p8": 1} | {"p1": 1, "p8": 1, "p0": ""}
a closed object has its required ones anywhere, and many others once and in order
  {"type":"object","properties":{"p0":{"type":"integer"},"p1":{"type":"integer"},"p2":{"type":"integer"},"p3":{"type":"integer"},
    "p4":{"type":"integer"},"p5":{"type":"integer"},"p6":{"type":"integer"},"p7":{"type":"integer"},"p8":{"type":"integer"}},
    "required":["p1","p8"],"additionalProperties":false}
  + {"p8": 1, "p1": 1} | {"p0": 1, "p8": 1, "p5": 1, "p1": 1} | {"p1": 1, "p8": 1, "p7": 1}
  - {"p8": 1} | {"p8": 1, "p5": 1, "p0": 1, "p1": 1} | {"p0": 1, "p0": 1, "p1": 1, "p8": 1} |
    {"p1": 1, "x": 1, "p8": 1, "p0": 1, "p2": 1}
so has one with a bounded number of members
  {"type":"object","properties":{"p0":{"type":"integer"},"p1":{"type":"integer"},"p2":{"type":"integer"},"p3":{"type":"integer"},
    "p4":{"type":"integer"},"p5":{"type":"integer"},"p6":{"type":"integer"},"p7":{"type":"integer"},"p8":{"type":"integer"}},
    "required":["p1","p8"],"maxProperties":4}
  + {"p8": 1, "p1": 1} | {"p0": 1, "p8": 1, "p5": 1, "p1": 1} | {"p1": 1, "p8": 1, "p7": 1}
  - {"p8": 1} | {"p8": 1, "p5": 1, "p0": 1, "p1": 1} | {"p0": 1, "p0": 1, "p1": 1, "p8": 1} |
    {"p1": 1, "x": 1, "p8": 1, "p0": 1, "p2": 1}
with too many required members for a free order, all stay required
  {"type":"object","properties":{"p0":{"type":"integer"},"p1":{"type":"integer"},"p2":{"type":"integer"},"p3":{"type":"integer"},
    "p4":{"type":"integer"},"p5":{"type":"integer"},"p6":{"type":"integer"},"p7":{"type":"integer"},"p8":{"type":"integer"}},
    "required":["p0","p1","p2","p3","p4","p5","p6","p7","p8"]}
  + {"p0": 1, "p1": 1, "p2": 1, "p3": 1, "p4": 1, "p5": 1, "p6": 1, "p7": 1, "p8": 1} |
    {"x": 1, "p0": 1, "p1": 1, "p2": 1, "p3": 1, "p4": 1, "p5": 1, "p6": 1, "p7": 1, "p8": 1, "y": 1}
  - {"p8": 1, "p7": 1, "p6": 1, "p5": 1, "p4": 1, "p3": 1, "p2": 1, "p1": 1, "p0": 1}
bounds on the count and dependencies hold in every order
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},
    "maxProperties":2,"minProperties":1,"dependentRequired":{"b":["a"]}}
  + {"b": "", "a": 1} | {"c": 1} | {"x": 1, "a": 1}
  - {} | {"b": ""} | {"x": 1, "b": ""} | {"c": 1, "b": "", "a": 1} | {"x": 1, "y": 1, "z": 1}
a closed object of few has only declared members, in any order
  {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["a","b"],"additionalProperties":false}
  + {"c": 1, "b": "", "a": 1} | {"a": 1, "b": ""}
  - {"x": 1, "b": "", "a": 1} | {"b": "", "c": 1}
`;

type SchemaCase = {
  readonly name: string;
  readonly schema: unknown;
  readonly accepts: readonly string[];
  readonly rejects: readonly string[];
  readonly unenforced?: readonly string[];
};

const xs = (lengths: readonly number[]) => lengths.map((length) => JSON.stringify("x".repeat(length)));
const ones = (counts: readonly number[]) => counts.map((count) => `[${Array(count).fill(1).join()}]`);

/** Cases whose texts are long, or begin, end or break as no line of a table can. */
const OTHERS: readonly SchemaCase[] = [
  {
    name: "anything",
    schema: {},
    accepts: ["null", "true", "-1.5e10", '"a\\u00e9\\n"', "[]", "{}", '{"a": [1, {"b":null}]}', "0", '"😀"'],
    rejects: ["", "nul", "01", "1.", '"a\nb"', "[1,]", '{"a":1,}', "{ }", "[ 1]", '{"a":  1}', " 1", "1 ", '"\\ud83d"'],
  },
  {
    name: "texts that begin with the same half of a character",
    schema: { enum: ["😀a", "😁b", "😀c", '😀"'] },
    accepts: ['"😀a"', '"😁b"', '"😀c"', '"😀\\""'],
    rejects: ['"😀b"', '"😁a"', '"😀"', '"\ud83d"'],
  },
  {
    name: "long strings",
    schema: { type: "string", minLength: 40, maxLength: 300 },
    accepts: xs([40, 41, 255, 256, 257, 299, 300]),
    rejects: xs([0, 39, 301, 400]),
  },
  {
    name: "many items",
    schema: { type: "array", items: { const: 1 }, minItems: 20, maxItems: 50 },
    accepts: ones([20, 33, 49, 50]),
    rejects: ones([19, 51]),
  },
];

function caseOf(lines: string): SchemaCase {
  const [name = "", schema = "", ...lists] = lines.replaceAll("\n    ", "").split("\n  ");
  const listed = (sign: string) =>
    lists
      .find((list) => list.startsWith(sign))
      ?.slice(2)
      .split(/ \|[ ]?/);
  const unenforced = listed("?");
  const base = { name, schema: JSON.parse(schema), accepts: listed("+") ?? [], rejects: listed("-") ?? [] };
  return unenforced ? { ...base, unenforced } : base;
}

const casesOf = (table: string) =>
  table
    .trim()
    .split(/\n(?! )/)
    .map(caseOf);

export const SCHEMA_CASES: readonly SchemaCase[] = [...OTHERS, ...casesOf(ENFORCED)];
export const UNDECLARED_CASES = casesOf(UNDECLARED);
