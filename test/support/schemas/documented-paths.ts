type Node = {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: unknown;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
  readonly type?: string | readonly string[];
  readonly "x-no-effect"?: boolean;
};

/** The fields of a schema, as paths such as `messages[].role`. */
export type DocumentedPaths = {
  readonly all: ReadonlySet<string>;
  readonly inert: ReadonlySet<string>;
  /** Fields that accept anything: below them no names are documented. */
  readonly free: ReadonlySet<string>;
};

export function documentedPaths(schemas: object, names: readonly string[]): DocumentedPaths {
  const named = schemas as Readonly<Record<string, Node>>;
  const all = new Set<string>();
  const inert = new Set<string>();
  const free = new Set<string>();
  const walk = (node: Node, path: string, open: readonly string[]): void => {
    if (node["x-no-effect"]) inert.add(path);
    if (node.$ref) {
      const name = node.$ref.split("/").at(-1) ?? "";
      const target = named[name];
      if (!target) throw new Error(`no schema ${name}`);
      if (!open.includes(name)) walk(target, path, [...open, name]);
      return;
    }
    const choices = [...(node.anyOf ?? []), ...(node.oneOf ?? [])];
    for (const choice of choices) walk(choice, path, open);
    if (node.items) walk(node.items, `${path}[]`, open);
    for (const [key, child] of Object.entries(node.properties ?? {})) {
      const at = path === "" ? key : `${path}.${key}`;
      all.add(at);
      walk(child, at, open);
    }
    const says = choices.length > 0 || node.items !== undefined || Object.keys(node.properties ?? {}).length > 0;
    if (!says && (node.type === undefined || node.type === "object")) free.add(path);
  };
  for (const name of names) walk({ $ref: `#/${name}` }, "", []);
  return { all, inert, free };
}

/** Returns the paths that a schema does not document and that are not below a free field. */
export function undocumented(paths: Iterable<string>, { all, free }: DocumentedPaths): readonly string[] {
  return [...paths].filter((path) => !all.has(path) && ![...free].some((open) => isBelow(path, open))).toSorted();
}

function isBelow(path: string, above: string): boolean {
  return path.startsWith(`${above}.`) || path.startsWith(`${above}[`);
}

export function pathsOf(value: unknown, path = ""): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => pathsOf(item, `${path}[]`));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) => {
    const at = path === "" ? key : `${path}.${key}`;
    return [at, ...pathsOf(child, at)];
  });
}

/** Returns a copy of a value that passes the path of every accessed field, present or not, to `seen`. */
export function watched<Value>(value: Value, seen: (path: string) => void, path = ""): Value {
  if (typeof value !== "object" || value === null) return value;
  const isList = Array.isArray(value);
  return new Proxy(value, {
    get(target, key, receiver) {
      const found: unknown = Reflect.get(target, key, receiver);
      if (typeof key !== "string" || typeof found === "function") return found;
      if (isList) return /^\d+$/.test(key) ? watched(found, seen, `${path}[]`) : found;
      const at = path === "" ? key : `${path}.${key}`;
      seen(at);
      return watched(found, seen, at);
    },
  });
}
