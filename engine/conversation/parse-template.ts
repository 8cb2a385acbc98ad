import { Template } from "@huggingface/jinja";

type SyntaxNode = { readonly type: string; readonly [field: string]: unknown };

/** The name of the function that tells whether a string stands for a number, which every rendering has to be given. */
export const IS_NUMBER = "svc_is_number";

/** The names of the tests of a value's type, each with what it says of a number. */
const OF_NUMBERS: Readonly<Record<string, boolean>> = { string: false, number: true };

/** The names of the interpreter's tests, each with what Python writes for the one value that passes it. */
const PYTHON_WORDS = { none: "None", true: "True", false: "False" } as const;

/**
 * Parses the Jinja source of a chat template. Templates are written for Python, where the filter `string` takes any
 * value; the interpreter's own fails for null and writes booleans in JavaScript's way, so that it is not asked for
 * these. Tests of a type take the strings that stand for numbers for these, by the function `IS_NUMBER`. Throws where
 * the source is not Jinja.
 */
export function parseTemplate(source: string): Template {
  const template = new Template(source);
  writeAsPython(template.parsed);
  seeNumbers(template.parsed);
  return template;
}

/**
 * Parses the source so that at the beginning of each round of a loop the function of the name `mark` is called with the
 * item of the round, and what it returns is written there; nothing is where it returns null.
 */
export function parseMarkedTemplate(source: string, mark: string): Template {
  const template = parseTemplate(source);
  markLoops(template.parsed, mark);
  return template;
}

/** Puts calls of the function `mark` into the loops below a node. */
function markLoops(parent: object, mark: string): void {
  for (const child of Object.values(parent)) {
    if (typeof child !== "object" || child === null) continue;
    markLoops(child, mark);
    if (!isNode(child) || child.type !== "For" || !Array.isArray(child.body)) continue;
    const { loopvar } = child;
    if (!isNode(loopvar) || loopvar.type !== "Identifier") continue;
    child.body.unshift({ type: "CallExpression", callee: { type: "Identifier", value: mark }, args: [loopvar] });
  }
}

/** Puts conditions around the filters `string` below a node. */
function writeAsPython(parent: object): void {
  for (const [key, child] of Object.entries(parent)) {
    if (typeof child !== "object" || child === null) continue;
    writeAsPython(child);
    if (isStringFilter(child)) Reflect.set(parent, key, conditional(child));
  }
}

/** Puts conditions around the tests of a type below a node, as a number may be held by a string. */
function seeNumbers(parent: object): void {
  for (const [key, child] of Object.entries(parent)) {
    if (typeof child !== "object" || child === null) continue;
    seeNumbers(child);
    if (!isNode(child) || child.type !== "TestExpression" || !isNode(child.operand) || !isNode(child.test)) continue;
    const { operand, test, negate } = child;
    const says = OF_NUMBERS[String(test.value)];
    if (says === undefined || (operand.type !== "Identifier" && operand.type !== "MemberExpression")) continue;
    Reflect.set(parent, key, {
      type: "Ternary",
      condition: { type: "CallExpression", callee: { type: "Identifier", value: IS_NUMBER }, args: [operand] },
      trueExpr: { type: "Identifier", value: String(says !== negate) },
      falseExpr: child,
    });
  }
}

/** Whether a node is the filter `string` upon a variable or a member of one: their values may be asked for repeatedly. */
function isStringFilter(node: object): node is SyntaxNode & { readonly operand: SyntaxNode } {
  if (!isNode(node) || node.type !== "FilterExpression" || !isNode(node.operand) || !isNode(node.filter)) return false;
  const { operand, filter } = node;
  return filter.value === "string" && (operand.type === "Identifier" || operand.type === "MemberExpression");
}

function conditional(filter: SyntaxNode & { readonly operand: SyntaxNode }): SyntaxNode {
  return Object.entries(PYTHON_WORDS).reduce<SyntaxNode>(
    (otherwise, [test, word]) => ({
      type: "Ternary",
      condition: {
        type: "TestExpression",
        operand: filter.operand,
        negate: false,
        test: { type: "Identifier", value: test },
      },
      trueExpr: { type: "StringLiteral", value: word },
      falseExpr: otherwise,
    }),
    filter,
  );
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}
