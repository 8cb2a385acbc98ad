import { type Document, isPair, isScalar, isSeq, type Node, visit } from "yaml";

/** Variables of an environment by their names, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What stands in a text of a configuration: `$${`, a reference such as `${NAME}` or `${NAME:-text}`, or a broken one. */
const REFERENCE = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?/g;

/** The values that are no text where a reference stands alone and without quotation marks, as YAML has it. */
const NO_TEXT = /^(?:true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)$/;

/**
 * Puts the values of environment variables into a YAML document, in place of `${NAME}` in its values (not in its keys
 * and comments). `${NAME:-text}` gives the text where the variable is unset or empty, and `$${` is a plain `${`. A
 * value that is nothing but a reference without quotation marks becomes a number or a boolean where it looks like one.
 * Returns a line for each reference that gives nothing, with the path of its key; an empty list where all is well.
 */
export function fillFromEnvironment(document: Document, env: Environment): readonly string[] {
  const faults: string[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      if (key === "key" || typeof node.value !== "string" || !node.value.includes("${")) return;
      const path = () => pathOf([...ancestors, node]);
      const filled = node.value.replaceAll(REFERENCE, (found, name?: string, instead?: string) => {
        if (found === "$${") return "${";
        if (name === undefined) {
          faults.push(`${path()}: expected \${NAME} or \${NAME:-text}; $\${ stands for a plain \${`);
          return "";
        }
        const value = env[name];
        if (instead === undefined) {
          if (value === undefined) faults.push(`${path()}: the environment has no ${name}`);
          return value ?? "";
        }
        return value || instead;
      });
      const alone = node.type === "PLAIN" && /^\$\{[^}]*\}$/.test(node.value);
      node.value = alone && NO_TEXT.test(filled) ? JSON.parse(filled) : filled;
    },
  });
  return faults;
}

/** Returns the path of the last node among nodes that each hold the next, as other faults of a configuration have it. */
function pathOf(nodes: readonly unknown[]): string {
  const steps = nodes.flatMap((node, at) => {
    if (isPair(node)) return [isScalar(node.key) ? String(node.key.value) : "?"];
    return isSeq(node) ? [String(node.items.indexOf(nodes[at + 1] as Node))] : [];
  });
  return steps.join(".") || "(root)";
}
