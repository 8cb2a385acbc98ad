import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { parseAst } from "vitest/node";

/*
 * An editor shows a doc comment alone, beside a name whose file nobody has open. So everything that another file can
 * name has one: what a file exports, the fields of exported types, and what is public of exported classes.
 */

const ROOT = resolve(import.meta.dirname, "../..");

const DOC_COMMENT_AT_END = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/;

type SyntaxNode = { readonly type: string; readonly start: number; readonly [field: string]: unknown };

const filesIn = (...rooms: readonly string[]): string[] =>
  rooms
    .flatMap((room) => readdirSync(join(ROOT, room), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

/** The nodes that a field of `node` holds: none, one, or those of a list. */
function nodesAt(node: SyntaxNode, field: string): readonly SyntaxNode[] {
  const value = node[field];
  return (Array.isArray(value) ? value : [value]).filter(isNode);
}

/** The fields of a type, through unions, intersections, lists, and what wraps a type, such as `Readonly<…>`. */
function fieldsOf(type: SyntaxNode): readonly SyntaxNode[] {
  if (type.type === "TSTypeLiteral") return nodesAt(type, "members");
  if (type.type === "TSFunctionType") return [];
  const within = ["types", "typeAnnotation", "elementType", "typeArguments", "params"];
  return within.flatMap((field) => nodesAt(type, field)).flatMap(fieldsOf);
}

/** Whether others may use a member of a class by its name: no constructor, and nothing that is private to it. */
function isPublic(member: SyntaxNode): boolean {
  const [key] = nodesAt(member, "key");
  const hidden = member.accessibility === "private" || member.accessibility === "protected";
  return key !== undefined && key.type !== "PrivateIdentifier" && !hidden && member.kind !== "constructor";
}

/** The members of an exported declaration, which an editor shows by themselves. */
function membersOf(declaration: SyntaxNode): readonly SyntaxNode[] {
  const body = nodesAt(declaration, "body").flatMap((node) => nodesAt(node, "body"));
  if (declaration.type === "ClassDeclaration") return body.filter(isPublic);
  if (declaration.type === "TSInterfaceDeclaration") return body;
  return declaration.type === "TSTypeAliasDeclaration" ? nodesAt(declaration, "typeAnnotation").flatMap(fieldsOf) : [];
}

/** Whether a member begins a line. Fields within one line are explained by the comment of the type that they are in. */
function beginsItsLine(text: string, member: SyntaxNode): boolean {
  return /(?:^|\n)[ \t]*$/.test(text.slice(0, member.start));
}

/** Whether a member says itself what it is: its type is one literal, or it has the comment of what it overrides. */
function explainsItself(member: SyntaxNode): boolean {
  const [type] = nodesAt(member, "typeAnnotation").flatMap((annotation) => nodesAt(annotation, "typeAnnotation"));
  return type?.type === "TSLiteralType" || member.override === true;
}

/** What of a source text others can name and has no doc comment, each as `line: text`. */
function undocumented(text: string): readonly string[] {
  const program: unknown = parseAst(text, { lang: "ts" });
  const statements = isNode(program) ? nodesAt(program, "body") : [];
  const exported = statements.filter(
    (node) => node.type.startsWith("Export") && nodesAt(node, "declaration").length > 0,
  );
  const members = exported.flatMap((node) => nodesAt(node, "declaration")).flatMap(membersOf);
  return [...exported, ...members.filter((member) => beginsItsLine(text, member) && !explainsItself(member))]
    .filter(({ start }) => !DOC_COMMENT_AT_END.test(text.slice(0, start)))
    .map(({ start }) => `${text.slice(0, start).split("\n").length}: ${text.slice(start).split("\n", 1)[0]}`);
}

/** The lines of doc comments that stand over nothing: an empty line or another one follows, mostly after a merge. */
function strayComments(text: string): readonly number[] {
  const stray = text.matchAll(/\/\*\*(?:(?!\*\/)[\s\S])*\*\/[ \t]*\n[ \t]*(?:\n|\/\*\*)/g);
  return [...stray].map(({ index }) => text.slice(0, index).split("\n").length);
}

test.each([
  ["a function", "export async function f(): Promise<void> {}"],
  ["a constant", "export const LIMIT = 1;"],
  ["a type", "export type T = string;"],
  ["a class", "export class C {}"],
  ["a field of a type", "/** A type. */\nexport type T = {\n  readonly a: number;\n};"],
  [
    "a field of one form of a union",
    "/** A type. */\nexport type T =\n  | string\n  | {\n      readonly a: number;\n    };",
  ],
  ["a field of an intersection", "/** A type. */\nexport type T = S & {\n  readonly a: number;\n};"],
  ["a field of a type that is wrapped", "/** A type. */\nexport type T = Readonly<{\n  a: number;\n}>;"],
  ["a method of an interface", "/** An interface. */\nexport interface I {\n  m(): void;\n}"],
  ["a method of a class", "/** A class. */\nexport class C {\n  m(): void {}\n}"],
  ["a getter", "/** A class. */\nexport class C {\n  get a(): number {\n    return 1;\n  }\n}"],
  ["a public field", "/** A class. */\nexport class C {\n  readonly a: number;\n}"],
  ["what a comment stands over that is no doc comment", "// A type.\nexport type T = string;"],
  ["what follows something that has one", "/** A type. */\nexport type T = string;\nexport type U = string;"],
])("%s without a doc comment is found", (_name, source) => {
  expect(undocumented(source)).toHaveLength(1);
});

test.each([
  ["what is not exported", "type T = {\n  readonly a: number;\n};\nclass C {\n  m(): void {}\n}"],
  [
    "what is private to a class",
    "/** A class. */\nexport class C {\n  #a = 1;\n  constructor() {}\n  #m(): void {}\n}",
  ],
  [
    "fields within one line",
    "/** A range from `a` to `b`. */\nexport type T = { readonly a: number; readonly b: number };",
  ],
  ["a field whose type is one literal", '/** A part. */\nexport type T = {\n  readonly type: "text";\n};'],
  ["what overrides", '/** An error. */\nexport class E extends Error {\n  override readonly name = "E";\n}'],
  ["a comment of many lines", "/**\n * A type.\n */\nexport type T = {\n  /** A field. */\n  readonly a: number;\n};"],
])("%s asks for no doc comment", (_name, source) => {
  expect(undocumented(source)).toEqual([]);
});

test.each([
  ["over another one", "/** A limit. */\n/** A number. */\nconst A = 1;", [1]],
  ["over an empty line", "const A = 1;\n/** A limit. */\n\nconst B = 1;", [2]],
  ["over what it explains", "/*\n * A file.\n */\n\n/** A limit. */\nconst A = 1;\n/** A number. */\nconst B = 1;", []],
])("a doc comment that stands %s is told from the others", (_name, source, lines) => {
  expect(strayComments(source)).toEqual(lines);
});

test("every doc comment stands over what it explains", () => {
  const stray = filesIn("gateway", "engine", "deploy", "test").flatMap((file) =>
    strayComments(readFileSync(join(ROOT, file), "utf8")).map((line) => `${file}:${line}`),
  );
  expect(stray).toEqual([]);
});

test("everything that another file can name has a doc comment", () => {
  const bare = filesIn("gateway", "engine", "deploy").flatMap((file) =>
    undocumented(readFileSync(join(ROOT, file), "utf8")).map((place) => `${file}:${place}`),
  );
  expect(bare).toEqual([]);
});
