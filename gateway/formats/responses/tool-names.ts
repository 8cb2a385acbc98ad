/** Maps the model's name of a tool to the name and the namespace under which the caller declared it. */
export type ToolNames = ReadonlyMap<string, { readonly namespace: string; readonly name: string }>;

/**
 * Returns the model's name of a tool. Inside a namespace it is joined from both; as two pairs may give the same text,
 * declared tools are checked for collisions, and the way back is a look-up, never a split.
 */
export function modelName(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}__${name}`;
}
