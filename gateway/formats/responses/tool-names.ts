/** Maps the name by which the model knows a tool to the name and the namespace under which the caller declared it. */
export type ToolNames = ReadonlyMap<string, { readonly namespace: string; readonly name: string }>;

/**
 * Returns the name under which the model knows a tool. Inside a namespace it is joined from both; as two pairs may give
 * the same text, declared tools are checked for it, and the way back is a look-up, never a split.
 */
export function modelName(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}__${name}`;
}
