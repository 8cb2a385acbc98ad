import { join } from "node:path";
import { API, type Checker, type Type } from "typescript/unstable/sync";

/* The types of the requests of SDKs, read from their declarations by the TypeScript compiler. */

/** A type, as far as values for it can be made. Types may contain themselves. */
export type Shape = {
  kind: "literal" | "string" | "number" | "list" | "object" | "union" | "unknown";
  /** Of a literal. */
  value?: string | number | boolean;
  /** Of a list. */
  item?: Shape;
  /** Of a union. */
  options?: readonly Shape[];
  /** Of an object, by their names. */
  fields?: ReadonlyMap<string, { readonly shape: Shape; readonly required: boolean }>;
};

/** A type of a package: the file that declares it, without `.d.ts`, and its name there. */
export type Declared = { readonly file: string; readonly name: string };

/** Reads types of the packages installed in `folder`. */
export function requestTypes(folder: string, declared: readonly Declared[]): readonly Shape[] {
  const source = join(folder, "request-types.ts");
  const config = join(folder, "request-types.json");
  const imports = declared.map(
    ({ file, name }, at) => `import type { ${name} as T${at} } from "./node_modules/${file}.js";`,
  );
  const roots = `export interface Roots { ${declared.map((_, at) => `T${at}: T${at};`).join(" ")} }`;
  const files: Readonly<Record<string, string>> = {
    [source]: [...imports, roots].join("\n"),
    [config]: JSON.stringify({
      compilerOptions: { lib: ["es2022"], types: [], skipLibCheck: true, strict: true, module: "nodenext" },
      files: [source],
    }),
  };
  // Other files are read from the disk.
  const fs = {
    readFile: (name: string) => files[name],
    fileExists: (name: string) => (files[name] ? true : undefined),
  };
  const api = new API({ cwd: folder, fs });
  try {
    const [project] = api.updateSnapshot({ openProjects: [config] }).getProjects();
    const { checker } = project ?? fail("no project");
    const symbol = checker.getSymbolAtPosition(source, files[source]?.indexOf("Roots") ?? 0) ?? fail("no roots");
    const shape = new Reader(checker).shapeOf(checker.getDeclaredTypeOfSymbol(symbol));
    return [...(shape.fields?.values() ?? [])].map((field) => field.shape);
  } finally {
    api.close();
  }
}

function fail(why: string): never {
  throw new Error(`the declarations cannot be read: ${why}`);
}

const OPTIONAL_SYMBOL = 1 << 24;

class Reader {
  readonly #checker: Checker;
  readonly #shapes = new Map<number, Shape>();

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  shapeOf(type: Type): Shape {
    const known = this.#shapes.get(type.id);
    if (known) return known;
    const shape: Shape = { kind: "unknown" };
    this.#shapes.set(type.id, shape);
    return Object.assign(shape, this.#read(type));
  }

  #read(type: Type): Shape {
    const checker = this.#checker;
    if (type.isErrorType()) fail("a type is not found");
    if (type.isUnionType()) {
      const options = type.getTypes().filter((one) => !one.isIntrinsicType() || !isAbsence(one.intrinsicName));
      return { kind: "union", options: options.map((one) => this.shapeOf(one)) };
    }
    if (type.isLiteralType()) return { kind: "literal", value: type.value as string };
    if (type.isIntrinsicType()) return { kind: INTRINSIC[type.intrinsicName] ?? "unknown" };
    // A text that suggests values: `string & {}`.
    if (type.isIntersectionType()) return { kind: "string" };
    if (checker.isArrayType(type) && type.isTypeReference()) {
      const [item] = checker.getTypeArguments(type);
      return { kind: "list", item: item ? this.shapeOf(item) : { kind: "unknown" } };
    }
    const symbols = checker.getPropertiesOfType(type);
    const types = symbols.length > 0 ? checker.getTypeOfSymbol(symbols) : [];
    const fields = symbols.map((symbol, at) => {
      const required = (symbol.flags & OPTIONAL_SYMBOL) === 0;
      return [symbol.name, { shape: this.shapeOf(types[at] ?? fail(symbol.name)), required }] as const;
    });
    return { kind: "object", fields: new Map(fields) };
  }
}

const INTRINSIC: Readonly<Record<string, Shape["kind"]>> = { string: "string", number: "number" };

function isAbsence(name: string): boolean {
  return name === "undefined" || name === "null";
}
