/** A schema with texts that its grammar matches, and texts that it does not. */
type Row = readonly [name: string, schema: unknown, accepts: string[], rejects: string[], unenforced?: string[]];

const TREE = {
  $defs: {
    node: { type: "object", properties: { v: { type: "integer" }, next: { $ref: "#/$defs/node" } }, required: ["v"] },
  },
  $ref: "#/$defs/node",
};
const SQUARE = {
  type: "object",
  properties: { kind: { const: "square" }, side: { type: "integer" } },
  required: ["kind", "side"],
};
const ROUND = {
  type: "object",
  properties: { kind: { const: "round" }, r: { type: "integer" } },
  required: ["kind", "r"],
};
const text = (inside: string) => JSON.stringify(inside);

const ROWS: readonly Row[] = [
  [
    "anything",
    {},
    ["null", "true", "-1.5e10", '"a\\u00e9\\n"', "[]", "{}", '{"a": [1, {"b":null}]}', "0", '"😀"'],
    ["", "nul", "01", "1.", '"a\nb"', "[1,]", '{"a":1,}', "{ }", "[ 1]", '{"a":  1}', " 1", "1 ", '"\\ud83d"'],
  ],
  [
    "texts that begin with the same half of a character",
    { enum: ["😀a", "😁b", "😀c", '😀"'] },
    ['"😀a"', '"😁b"', '"😀c"', '"😀\\""'],
    ['"😀b"', '"😁a"', '"😀"', '"\ud83d"'],
  ],
  [
    "a surrogate pair as escapes",
    { type: "string", maxLength: 1 },
    ['"\\ud83d\\ude00"', '"😀"'],
    ['"\\ud83d"', '"\\ude00"', '"ab"'],
  ],
  ["booleans and null", { type: ["boolean", "null"] }, ["true", "false", "null"], ["1", '"true"']],
  ["nullable", { type: "string", nullable: true }, ["null", '"a"'], ["1"]],
  ["integers", { type: "integer" }, ["0", "-7", "123"], ["1.0", "01", "-", "1e3", '"1"']],
  [
    "integers in a range",
    { type: "integer", minimum: -12, maximum: 105 },
    ["-12", "-9", "-1", "0", "9", "10", "99", "100", "105"],
    ["-13", "-20", "106", "110", "200", "1000", "-100", "007"],
  ],
  [
    "integers with an old exclusive maximum",
    { type: "integer", maximum: 20, exclusiveMaximum: true },
    ["19", "-3"],
    ["20", "21"],
  ],
  ["integers with fractions as bounds", { type: "integer", minimum: 1.5, maximum: 3.5 }, ["2", "3"], ["1", "4"]],
  [
    "integers with the bounds of safe integers",
    { type: "integer", minimum: -9007199254740991, maximum: 9007199254740991 },
    ["9007199254740991", "-9007199254740991", "5"],
    ["9007199254740992", "-9007199254740992"],
  ],
  [
    "integers between enormous bounds",
    { type: "integer", minimum: 7, maximum: 1.7e308 },
    ["7", "9999999999999999999"],
    ["6", "99999999999999999999"],
  ],
  ["numbers", { type: "number" }, ["0", "-0.5", "12e-3", "1.25E+10"], [".5", "1.", "1e", "1e999", "NaN"]],
  [
    "numbers between exclusive bounds",
    { type: "number", exclusiveMinimum: -1, exclusiveMaximum: 1 },
    ["0", "-0.99", "0.5", "-0"],
    ["1", "-1", "1.0", "-1.0"],
  ],
  ["whole numbers by multipleOf", { type: "number", multipleOf: 1 }, ["3"], ["3.5"]],
  ["multiples of too large a number", { type: "integer", multipleOf: 1013 }, ["5"], ["a"], ["#/multipleOf"]],
  [
    "strings of some length",
    { type: "string", minLength: 2, maxLength: 4 },
    ['"ab"', '"a\\nb"', '"äöü€"'],
    ['"a"', '"abcde"', '""'],
  ],
  [
    "long strings",
    { type: "string", minLength: 40, maxLength: 300 },
    [40, 41, 255, 256, 257, 299, 300].map((n) => text("x".repeat(n))),
    [0, 39, 301, 400].map((n) => text("x".repeat(n))),
  ],
  [
    "an enum",
    { enum: ["red", "reddish", "green", 7, 1.5, null, true, 'q"\\\n'] },
    ['"red"', '"reddish"', '"green"', "7", "1.5", "null", "true", '"q\\"\\\\\\n"'],
    ['"re"', '"blue"', "8", "false"],
  ],
  [
    "an enum of objects and lists",
    { enum: [{ a: 1, b: [2, "x"] }, []] },
    ['{"a": 1, "b": [2, "x"]}', '{"a":1,"b":[2,"x"]}', "[]"],
    ['{"a":1}', '{"b":[2,"x"],"a":1}'],
  ],
  [
    "an enum under a type and bounds",
    { type: ["string", "integer"], enum: ["a", "abc", 1, 2.5, null], maxLength: 1 },
    ['"a"', "1"],
    ['"abc"', "2.5", "null"],
  ],
  ["a constant", { const: "on" }, ['"on"'], ['"off"', "on"]],
  [
    "required and optional properties",
    {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "string" }, c: { type: "boolean" }, d: { type: "null" } },
      required: ["b", "d"],
    },
    [
      '{"b": "x", "d": null}',
      '{"a": 1, "b": "x", "d": null}',
      '{"a":1,"b":"","c":true,"d":null}',
      '{"b":"x", "c":false,"d":null}',
    ],
    [
      "{}",
      '{"a":1}',
      '{"b":"x"}',
      '{"d":null,"b":"x"}',
      '{"b":"x","d":null,"e":1}',
      '{"b":"x",,"d":null}',
      '{,"b":"x","d":null}',
      '{"b":1,"d":null}',
    ],
  ],
  ["empty properties", { type: "object", properties: {} }, ["{}", '{"a":1}'], ["[]"]],
  ["no properties at all allowed", { type: "object", additionalProperties: false }, ["{}"], ['{"a":1}']],
  [
    "declared and other properties",
    {
      type: "object",
      properties: { name: { type: "string" }, no: { type: "null" } },
      required: ["name"],
      additionalProperties: { type: "integer" },
    },
    ['{"name":"x"}', '{"name":"x","n":1}', '{"name":"x","names":1, "nam":2,"":3}', '{"name":"x","no":null,"é":4}'],
    [
      '{"name":"x","name":1}',
      '{"name":"x","no":1}',
      '{"n":1}',
      '{"n":1,"name":"x"}',
      '{"name":"x","n":"y"}',
      '{"name":"x","n\\u006fx":1}',
    ],
  ],
  [
    "a required property that is not declared",
    { type: "object", properties: { a: { type: "null" } }, required: ["b"] },
    ['{"b":1}', '{"a":null,"b":"x"}'],
    ["{}", '{"a":null}'],
  ],
  [
    "names by a rule",
    { type: "object", propertyNames: { enum: ["x", "y"] }, additionalProperties: { type: "integer" } },
    ["{}", '{"x":1,"y":2}'],
    ['{"z":1}'],
  ],
  [
    "properties by pattern beside declared ones",
    {
      type: "object",
      properties: { a: { type: "null" }, xb: { minimum: 3 } },
      patternProperties: { "^x": { type: "integer" }, y$: { maximum: 9 } },
    },
    ['{"a":null}', '{"xb":3,"x1":7}', '{"a":null,"y":8,"xy":9}'],
    ["1", '{"x":"s"}', '{"xb":2}', '{"xb":3.5}', '{"xy":10}', '{"b":1}'],
  ],
  ["arrays", { type: "array", items: { type: "integer" } }, ["[]", "[1]", "[1, 2,3]"], ["[a]", '["1"]', "[1,]", "1"]],
  [
    "arrays of some length",
    { type: "array", items: { type: "null" }, minItems: 2, maxItems: 3 },
    ["[null,null]", "[null, null, null]"],
    ["[]", "[null]", "[null,null,null,null]"],
  ],
  ["empty arrays", { type: "array", maxItems: 0 }, ["[]"], ["[1]"]],
  [
    "many items",
    { type: "array", items: { const: 1 }, minItems: 20, maxItems: 50 },
    [20, 33, 49, 50].map((n) => `[${Array(n).fill(1).join()}]`),
    [19, 51].map((n) => `[${Array(n).fill(1).join()}]`),
  ],
  [
    "tuples",
    { type: "array", prefixItems: [{ type: "integer" }, { type: "string" }], minItems: 1 },
    ["[1]", '[1, "a"]'],
    ["[]", '["a"]', '[1,"a",2]'],
  ],
  [
    "tuples in the old form",
    { type: "array", items: [{ type: "integer" }, { type: "string" }], additionalItems: false, minItems: 2 },
    ['[1,"a"]'],
    ["[1]", '[1,"a",1]'],
  ],
  [
    "unique items",
    { type: "array", items: { type: "integer" }, uniqueItems: true },
    ["[1,1]"],
    ["1"],
    ["#/uniqueItems"],
  ],
  [
    "anyOf",
    { anyOf: [{ type: "integer" }, { type: "array", items: { type: "string" } }] },
    ["1", '["a"]'],
    ['"a"', "[1]"],
  ],
  [
    "oneOf objects",
    { oneOf: [SQUARE, ROUND] },
    ['{"kind": "square", "side": 1}', '{"kind":"round","r":2}'],
    ['{"kind":"round","side":1}', '{"kind":"square"}'],
  ],
  [
    "oneOf distinguished by type, by bounds, and by closed objects",
    {
      oneOf: [
        { type: "string" },
        { type: "integer", maximum: 3 },
        { type: "integer", minimum: 4 },
        { type: "object", properties: { a: {} }, required: ["a"], additionalProperties: false },
        { type: "object", properties: { b: {} }, required: ["b"] },
      ],
    },
    ['"a"', "3", "4", '{"a":1}', '{"b":1}'],
    ["null", '{"a":1,"b":1}'],
  ],
  [
    "nothing unevaluated",
    { allOf: [{ properties: { a: { type: "null" } } }], type: "object", unevaluatedProperties: false },
    ["{}", '{"a":null}'],
    ['{"b":1}'],
  ],
  [
    "unevaluated properties with a schema",
    { type: "object", additionalProperties: true, unevaluatedProperties: { type: "null" } },
    ['{"b":1}'],
    ["1"],
    ["#/unevaluatedProperties"],
  ],
  [
    "anyOf beside other keywords",
    {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    ['{"a":1}', '{"b":1}', '{"a":1,"b":2}'],
    ["{}"],
  ],
  [
    "allOf of objects",
    {
      allOf: [
        { type: "object", properties: { a: { type: "number" } }, required: ["a"] },
        { properties: { a: { minimum: 3 }, b: { type: "null" } } },
      ],
    },
    ['{"a":3}', '{"a":4.5,"b":null}'],
    ['{"a":2}', "{}", '{"a":"x"}'],
  ],
  [
    "allOf of anyOf",
    {
      allOf: [{ anyOf: [{ type: "integer" }, { type: "string" }] }, { anyOf: [{ type: "string" }, { type: "null" }] }],
    },
    ['"a"'],
    ["1", "null"],
  ],
  [
    "a recursive definition",
    TREE,
    ['{"v":1}', '{"v": 1, "next": {"v":2,"next":{"v":3}}}'],
    ["{}", '{"v":1,"next":{}}', '{"v":1,"next":1}'],
  ],
  [
    "the old place of definitions",
    {
      definitions: { "a/b": { type: "integer" } },
      properties: { x: { $ref: "#/definitions/a~1b" } },
      required: ["x"],
    },
    ['{"x":1}'],
    ['{"x":"a"}', "{}"],
  ],
  [
    "recursion under allOf",
    {
      $defs: {
        a: { type: "object", properties: { c: { $ref: "#/$defs/a" } } },
        b: { allOf: [{ $ref: "#/$defs/a" }, { properties: { c: { $ref: "#/$defs/b" }, n: { type: "integer" } } }] },
      },
      $ref: "#/$defs/b",
    },
    ["{}", '{"c":{"c":{},"n":1},"n":2}'],
    ['{"n":"x"}', '{"c":1}'],
  ],
  ["a cyclic alternative", { anyOf: [{ $ref: "#" }, { type: "integer" }] }, ["1"], ['"a"']],
  [
    "an optional property that can never end",
    {
      $defs: { x: { type: "object", properties: { x: { $ref: "#/$defs/x" } }, required: ["x"] } },
      type: "object",
      properties: { x: { $ref: "#/$defs/x" }, y: { type: "null" } },
    },
    ["{}", '{"y":null}'],
    ['{"x":{}}'],
  ],
  [
    "a forbidden optional property",
    { type: "object", properties: { a: false, b: true } },
    ["{}", '{"b":1}'],
    ['{"a":1}'],
  ],
  [
    "another document",
    { properties: { a: { $ref: "https://example.com/x.json" } } },
    ["{}", '{"a":1}'],
    ["1"],
    ["#/properties/a/$ref"],
  ],
  [
    "listed objects and lists with exclusions",
    { enum: [{ a: 1, b: [2] }, { a: 2 }, [1], [2], "x", 3, null], not: { enum: [{ b: [2], a: 1 }, [2], 3] } },
    ['{"a":2}', "[1]", '"x"', "null"],
    ['{"a":1,"b":[2]}', "[2]", "3"],
  ],
  [
    "odd keys in paths",
    { properties: { "a secret": { type: "integer", multipleOf: 1013 } } },
    ['{"a secret":1}'],
    ["1"],
    ["#/properties/*/multipleOf"],
  ],
  ["unknown keywords", { type: "integer", "x-note": { type: "nonsense" }, title: 1, default: [] }, ["1"], ["a"]],
  [
    "a type implied by its keywords",
    { properties: { a: { minLength: 1 }, b: { minimum: 1 }, c: { items: {} } } },
    ['{"a":"x","b":1,"c":[1]}'],
    ["[]", '{"a":""}', '{"b":0}', '{"c":1}'],
  ],
  ["a pattern that is not anchored", { pattern: "b" }, ['"b"', '"abc"', '"\\nb\\""'], ['"ac"', '""', "1"]],
  ["a pattern anchored at one end", { type: "string", pattern: "^/" }, ['"/"', '"/a b"'], ['"a/"', '""']],
  [
    "alternatives of a pattern",
    { type: "string", pattern: "^a$|^b+$|(?:^c)" },
    ['"a"', '"bb"', '"cx"'],
    ['"ab"', '"xc"', '"d"'],
  ],
  [
    "groups and quantifiers",
    { type: "string", pattern: "^(?<x>ab|c)*(d?)e{2}f{1,}g*?$" },
    ['"eef"', '"abcabdeeff"', '"ceefgg"'],
    ['"ef"', '"abdeeefx"', '"aeef"'],
  ],
  [
    "classes of a pattern",
    { type: "string", pattern: "^[^\\s\"'a-c\\]]\\w\\S\\D.[\\n\\x41\\u00e9\\-]$" },
    [text("z_!x(\n"), text("\\0é-\u00a0é"), text("z_!xyA")],
    [text("a_!x(A"), text('"_!x(A'), text("z_!1(A"), text("z_!x\nA"), text("z_!x(B")],
  ],
  ["a pattern of a control character", { type: "string", pattern: "^\\x01$" }, ['"\\u0001"'], ['"\\u0002"', '"a"']],
  [
    "patterns outside the subset",
    {
      anyOf: [
        { pattern: "(?=a)" },
        { pattern: "\\bx" },
        { pattern: "(a)\\1" },
        { pattern: "\\p{L}" },
        { pattern: "a^b" },
      ],
    },
    ['"anything"'],
    ["1"],
    [0, 1, 2, 3, 4].map((i) => `#/anyOf/${i}/pattern`),
  ],
  [
    "dates",
    { format: "date", type: "string" },
    ['"2024-02-29"', '"2000-02-29"', '"2025-12-31"', '"1999-06-30"'],
    ['"2023-02-29"', '"1900-02-29"', '"2025-13-01"', '"2025-06-31"', '"2025-1-1"', '"2025-00-10"', '"2025-01-00"'],
  ],
  [
    "times",
    { format: "time", type: "string" },
    ['"23:59:59Z"', '"00:00:00.123+05:30"'],
    ['"24:00:00Z"', '"12:60:00Z"', '"12:00:00"'],
  ],
  [
    "uuids",
    { format: "uuid", type: "string" },
    ['"123e4567-e89b-12d3-a456-426614174000"'],
    ['"123e4567"', '"g23e4567-e89b-12d3-a456-426614174000"'],
  ],
  [
    "addresses",
    { type: "array", items: { anyOf: [{ format: "email" }, { format: "ipv4" }] } },
    ['["a.b+c@x-y.org","10.0.0.255"]'],
    ['["a@b"]', '["1.2.3.256"]', '["@x.org"]'],
  ],
  [
    "a host without internationalised labels",
    { format: "hostname" },
    ['"a"', '"ab"', '"a-b"', '"ab-c"', '"a--b"', '"abc-d-e--f.Example-1.org"', `"${"a".repeat(35)}.b"`],
    ['"xn--x"', '"ab--cd"', '"a.xn--x.org"', '"-a"', '"a-"', '"ab-"', '"abc-"', `"${"a".repeat(36)}"`],
  ],
  ["a format that is not enforced", { type: "string", format: "regex" }, ['"x"'], ["1"], ["#/format"]],
  ["an unknown format", { type: "string", format: "shade" }, ['"x"'], ["1"]],
  [
    "dependencies",
    {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" }, c: { type: "integer" } },
      dependentRequired: { a: ["c"] },
      dependentSchemas: { b: { properties: { c: { minimum: 5 } } } },
      minProperties: 1,
    },
    ['{"c":1}', '{"a":1,"c":1}', '{"b":1}', '{"b":1,"c":5}', '{"a":1,"b":2,"c":7}'],
    ["{}", '{"a":1}', '{"b":1,"c":4}', '{"a":1,"b":1}'],
  ],
  [
    "references by anchors and addresses",
    {
      $id: "https://example.org/root",
      $defs: {
        n: { $anchor: "number", type: "integer" },
        t: { $id: "text", $defs: { inner: { type: "string" } }, $ref: "#/$defs/inner" },
      },
      type: "array",
      prefixItems: [{ $ref: "#number" }, { $ref: "text" }, { $ref: "https://example.org/text#/$defs/inner" }],
      minItems: 3,
    },
    ['[1,"a","b"]'],
    ["[1,2,3]", '["a","a","a"]', '[1,"a"]'],
  ],
  [
    "nothing unevaluated inside an alternative, apart from the others",
    {
      type: "object",
      allOf: [{ properties: { a: {} } }, { properties: { b: {} }, unevaluatedProperties: false }],
    },
    ['{"a":1}'],
    ['{"c":1}'],
    ["#/allOf/1/unevaluatedProperties"],
  ],
];

export const SCHEMA_CASES = ROWS.map(([name, schema, accepts, rejects, unenforced]) => ({
  ...{ name, schema, accepts, rejects, unenforced },
}));
