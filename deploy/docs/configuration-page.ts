import type { SchemaNode } from "./markdown.ts";
import { code, page, table } from "./markdown.ts";
import { typeWords } from "./type-words.ts";

const INTRO =
  "How files are read, with variables of the environment, is on [Operate](../../deploy/docs/operate.md#in-pieces). A required key of a section is required only where the section is present.";

/** A longer default, such as the list of models, has pages of its own. */
const MAX_DEFAULT_LENGTH = 80;

/** Paths of groups, by the text of their keys. */
type Seen = Map<string, string>;

type Key = { readonly path: string; readonly node: SchemaNode; readonly required: boolean };

type Section = {
  readonly heading: string;
  /** The path of the section, which its keys begin with. Default: the file. */
  readonly at?: string;
  readonly text: string | undefined;
  readonly keys: readonly Key[];
};

/** A page with sections that another one may refer to. */
type OtherPage = { readonly program: string; readonly link: string; readonly schema: SchemaNode };

/**
 * Writes the page of a program's configuration from its schema. A section that `other` has as well refers to it. Throws
 * for a key without a description.
 */
export function configurationPage(program: string, source: string, schema: SchemaNode, other?: OtherPage): string {
  const sections = sectionsOf(schema);
  const elsewhere = new Set(other ? sectionsOf(other.schema).map((section) => sectionText(section)) : []);
  const written = new Set<string>();
  const silent = sections.flatMap(({ keys }) => keys).filter(({ node }) => !node.description);
  if (silent.length > 0) throw new Error(`${source}: no description of ${silent.map(({ path }) => path).join(", ")}`);
  return page(`Configuration of ${program}`, `${code(source)} and the schemas that it composes`, [
    INTRO,
    ...sections.map((section) => {
      const anchor = section.heading.replaceAll("`", "").toLowerCase();
      if (!other || !elsewhere.has(sectionText(section))) return sectionText(section, written);
      return `## ${section.heading}\n\nAs [of ${other.program}](${other.link}#${anchor}).`;
    }),
  ]);
}

/** Writes a section. Rows in `written` are named only; its own are added there. */
function sectionText({ heading, at = "", text, keys }: Section, written: Set<string> = new Set()): string {
  const rows = keys.map(({ path, node, required }) => [
    code(path === at ? path : path.replace(`${at}.`, "")),
    valueWords(node, required),
    node.description ?? "",
  ]);
  const isAbove = (row: readonly string[]) => written.has(row.join());
  const above = rows.filter(isAbove).map(([key]) => key);
  const fresh = rows.filter((row) => !isAbove(row));
  for (const row of rows) written.add(row.join());
  return [
    `## ${heading}`,
    ...(text ? [text] : []),
    ...(above.length > 0 ? [`As above: ${above.join(", ")}.`] : []),
    ...(fresh.length > 0 ? [table(["key", "type; default", "meaning"], fresh)] : []),
  ].join("\n\n");
}

/** Returns the type and the default of a value; the default alone where it shows the type. */
function valueWords(node: SchemaNode, required: boolean): string {
  const type = typeWords(node);
  const value = required ? "required" : defaultOf(node);
  if (!required && value !== "" && /^(?:string|boolean)$/.test(type)) return value;
  return [type, value].filter((part) => part !== "").join("; ");
}

/** Returns the sections of a page: the root's own values, then a section for each key with nested keys. */
function sectionsOf(root: SchemaNode): readonly Section[] {
  const seen: Seen = new Map();
  const plain: Key[] = [];
  const groups: Section[] = [];
  for (const key of keysOf(root, "")) {
    if (isGroup(key.node)) groups.push(...groupSections(key, seen));
    else plain.push(key);
  }
  return [{ heading: "Top level", text: undefined, keys: plain }, ...groups];
}

/** Returns the sections of a key with nested keys: its own, and one for each form if there are several. */
function groupSections({ path, node, required }: Key, seen: Seen): readonly Section[] {
  const inner = Array.isArray(node.items) ? undefined : node.items;
  const at = inner ? `${path}[]` : path;
  const holder = (typeof inner === "object" ? inner : node) as SchemaNode;
  const text = [node.description, required ? "Required." : undefined].filter((part) => part !== undefined).join(" ");
  const forms = formsOf(holder);
  if (forms.length === 0) return [{ heading: code(at), at, text, keys: leavesOf(holder, at, seen) }];
  const shared = sharedKeys(forms);
  const tag = tagOf(forms);
  const common = leavesOf({ properties: shared, required: requiredOf(forms) }, at, seen);
  return [
    ...(common.length > 0 ? [{ heading: code(at), at, text, keys: common }] : []),
    ...forms.map((form, index) => ({
      heading: `${code(at)} with ${code(`${tag}: ${tagValue(form, tag)}`)}`,
      at,
      text: common.length === 0 && index === 0 ? [text, form.description].filter(Boolean).join(" ") : form.description,
      keys: leavesOf(form, at, new Map()).filter(({ path: leaf }) => !common.some((key) => key.path === leaf)),
    })),
  ];
}

/** Returns the values below a key. A group that is as an earlier one is one value, which refers to that. */
function leavesOf(node: SchemaNode, path: string, seen: Seen): readonly Key[] {
  return keysOf(node, path).flatMap((key) => {
    const inner = key.node.items;
    if (key.node.properties) {
      const text = JSON.stringify(key.node.properties);
      const earlier = seen.get(text);
      if (earlier !== undefined) return [{ ...key, node: { type: "object", description: `As ${code(earlier)}.` } }];
      seen.set(text, key.path);
      return leavesOf(key.node, key.path, seen);
    }
    if (!isGroup(key.node) || typeof inner !== "object" || Array.isArray(inner)) return [key];
    return [key, ...leavesOf(inner as SchemaNode, `${key.path}[]`, seen)];
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

function defaultOf(node: SchemaNode): string {
  if (node.default === undefined || JSON.stringify(node.default).length > MAX_DEFAULT_LENGTH) return "";
  return code(typeof node.default === "string" && node.default !== "" ? node.default : JSON.stringify(node.default));
}
