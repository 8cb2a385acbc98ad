import type { SchemaNode } from "./markdown.ts";
import { code, page, table } from "./markdown.ts";
import { typeWords } from "./reference/field-tables.ts";

const INTRO = [
  "One YAML file per process, checked strictly: an unknown key stops the start with its path and exit code 2. Only what is",
  "required has to be in the file, and what is required in a section only where the section is. Relative paths start at the",
  "folder where the process is started.",
  "",
  `A value may take environment variables: \`\${NAME}\` is the variable's value, \`\${NAME:-text}\` the text where it is unset or empty,`,
  `and \`$\${\` a plain \`\${\`. A variable that is unset stops the start. Alone and without quotation marks, as in \`port: \${PORT}\`, a`,
  "reference may be a number, `true` or `false`. `--check-config` checks the file and starts nothing.",
].join("\n");

type Key = { readonly path: string; readonly node: SchemaNode; readonly required: boolean };

type Section = { readonly heading: string; readonly text: string | undefined; readonly keys: readonly Key[] };

/** Name suffixes with their units. */
const UNITS: readonly (readonly [ending: RegExp, unit: string])[] = [
  [/PerSecond$/, "tokens a second"],
  [/Ms$/, "milliseconds"],
  [/Seconds$/, "seconds"],
  [/Bytes$/, "bytes"],
  [/(?:Percent|healthyPanicThreshold|overprovisioningFactor|hashBalanceFactor)$/, "percent"],
  [/Tokens$/, "tokens"],
];

/** Writes the page of a program's configuration from its schema. Throws for a key without a description. */
export function configurationPage(program: string, source: string, schemaFile: string, schema: SchemaNode): string {
  const sections = sectionsOf(schema);
  const silent = sections.flatMap(({ keys }) => keys).filter(({ node }) => !node.description);
  if (silent.length > 0) throw new Error(`${source}: no description of ${silent.map(({ path }) => path).join(", ")}`);
  return page(`Configuration of ${program}`, `${code(source)} and the schemas that it composes`, [
    INTRO,
    `Editors with a YAML language server complete and check a file that begins with \`# yaml-language-server: $schema=${schemaFile}\`.`,
    ...sections.map(sectionText),
  ]);
}

function sectionText({ heading, text, keys }: Section): string {
  const rows = keys.map(({ path, node, required }) => [
    code(path),
    typeOf(path, node),
    required ? "required" : defaultOf(node),
    node.description ?? "",
  ]);
  const parts = [`## ${heading}`, ...(text ? [text] : []), table(["key", "type", "default", "meaning"], rows)];
  return parts.join("\n\n");
}

/** Returns the sections of a page: the root's own values, then a section for each key with nested keys. */
function sectionsOf(root: SchemaNode): readonly Section[] {
  const plain: Key[] = [];
  const groups: Section[] = [];
  for (const key of keysOf(root, "")) {
    if (isGroup(key.node)) groups.push(...groupSections(key));
    else plain.push(key);
  }
  return [{ heading: "Top level", text: undefined, keys: plain }, ...groups];
}

/** Returns the sections of a key with nested keys: its own, and one for each form if there are several. */
function groupSections({ path, node, required }: Key): readonly Section[] {
  const inner = Array.isArray(node.items) ? undefined : node.items;
  const at = inner ? `${path}[]` : path;
  const holder = (typeof inner === "object" ? inner : node) as SchemaNode;
  const text = [node.description, required ? "Required." : undefined].filter((part) => part !== undefined).join(" ");
  const forms = formsOf(holder);
  if (forms.length === 0) return [{ heading: code(at), text, keys: leavesOf(holder, at) }];
  const shared = sharedKeys(forms);
  const tag = tagOf(forms);
  const common = leavesOf({ properties: shared, required: requiredOf(forms) }, at);
  return [
    ...(common.length > 0 ? [{ heading: code(at), text, keys: common }] : []),
    ...forms.map((form, index) => ({
      heading: `${code(at)} with ${code(`${tag}: ${tagValue(form, tag)}`)}`,
      text: common.length === 0 && index === 0 ? [text, form.description].filter(Boolean).join(" ") : form.description,
      keys: leavesOf(form, at).filter(({ path: leaf }) => !common.some((key) => key.path === leaf)),
    })),
  ];
}

function leavesOf(node: SchemaNode, path: string): readonly Key[] {
  return keysOf(node, path).flatMap((key) => {
    const inner = key.node.items;
    if (key.node.properties) return leavesOf(key.node, key.path);
    if (!isGroup(key.node) || typeof inner !== "object" || Array.isArray(inner)) return [key];
    return [key, ...leavesOf(inner as SchemaNode, `${key.path}[]`)];
  });
}

function keysOf(node: SchemaNode, path: string): readonly Key[] {
  return Object.entries(node.properties ?? {}).map(([name, child]) => ({
    path: path === "" ? name : `${path}.${name}`,
    node: child as SchemaNode,
    required: node.required?.includes(name) ?? false,
  }));
}

function isGroup(node: SchemaNode): boolean {
  const inner = Array.isArray(node.items) ? undefined : node.items;
  const holder = typeof inner === "object" ? (inner as SchemaNode) : node;
  return holder.properties !== undefined || formsOf(holder).length > 0;
}

function formsOf(node: SchemaNode): readonly SchemaNode[] {
  const forms = (node.oneOf ?? []) as readonly SchemaNode[];
  return forms.every((form) => form.properties) ? forms : [];
}

function sharedKeys(forms: readonly SchemaNode[]): Record<string, SchemaNode> {
  const [first, ...others] = forms.map((form) => form.properties ?? {});
  const alike = Object.entries(first ?? {}).filter(([name, node]) =>
    others.every((other) => JSON.stringify(other[name]) === JSON.stringify(node)),
  );
  return Object.fromEntries(alike) as Record<string, SchemaNode>;
}

function requiredOf(forms: readonly SchemaNode[]): string[] {
  return (forms[0]?.required ?? []).filter((name) => forms.every((form) => form.required?.includes(name)));
}

function tagOf(forms: readonly SchemaNode[]): string {
  const names = Object.keys(forms[0]?.properties ?? {});
  return names.find((name) => forms.every((form) => tagValue(form, name) !== "undefined")) ?? "";
}

function tagValue(form: SchemaNode, tag: string): string {
  return String((form.properties?.[tag] as SchemaNode | undefined)?.const);
}

function typeOf(path: string, node: SchemaNode): string {
  const unit = UNITS.find(([ending]) => ending.test(path))?.[1];
  const words = typeWords(node);
  return unit && /^(?:whole )?number\b/.test(words) ? `${words}, in ${unit}` : words;
}

function defaultOf(node: SchemaNode): string {
  if (node.default === undefined) return "none";
  return code(typeof node.default === "string" && node.default !== "" ? node.default : JSON.stringify(node.default));
}
