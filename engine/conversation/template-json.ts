/** The depth beyond which values would exhaust the stack of the template's interpreter. */
const MAX_DEPTH = 100;

/**
 * Matches strings (and whether a colon follows: a key), numbers and brackets. It is sound only on text that is valid
 * JSON.
 */
const LEXEME = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|-?\d[\d.eE+-]*|[[\]{}]/gs;

/**
 * The names that the template's interpreter knows as methods of an object. It looks for a key first, where Python's
 * Jinja takes the method: an argument called `items` would end every template that says `arguments.items()`.
 */
const METHODS: ReadonlySet<string> = new Set(["get", "items", "keys", "values", "dictsort"]);
/** The keywords of JSON Schema under which the keys are names of the caller's. */
const NAMES_UNDER: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);

/** The kind of a JSON text: in arguments every key is a name of the caller's, in a schema most are keywords. */
export type JsonKind = "arguments" | "schema";

/** The stand-ins for values while the template is rendered; both functions return a string. */
export type JsonStandIns = {
  /** Returns what stands in for a string or a key; `always` asks for a placeholder even where the text is harmless. */
  readonly text: (text: string, always: boolean) => string;
  /** Returns what stands in for a number that JavaScript would write differently. */
  readonly number: (lexeme: string) => string;
};

/**
 * Returns a JSON text as a value for a template that will write it as JSON again, without what JavaScript does to JSON
 * on the way: large and oddly written numbers keep their digits, keys that look like numbers keep their place. Names of
 * the caller's that the interpreter would take for a method of its own are held by placeholders. `undefined` when the
 * text is not JSON or nested too deep.
 */
export function toTemplateValue(json: string, kind: JsonKind, standIns: JsonStandIns): unknown {
  if (!isJson(json)) return undefined;
  /** For each of the open objects and lists, outermost first: whether the keys in it are names of the caller's. */
  const open: boolean[] = [];
  let key = "";
  let deepest = 0;
  const isMoved = (name: string) =>
    /^\d+$/.test(name) || name === "__proto__" || (METHODS.has(name) && open.at(-1) === true);
  const replaced = json.replace(LEXEME, (lexeme: string, quoted: string | undefined, colon: string | undefined) => {
    if (quoted !== undefined) {
      const text: string = JSON.parse(quoted);
      if (colon === undefined) return JSON.stringify(standIns.text(text, false));
      key = text;
      return JSON.stringify(standIns.text(text, isMoved(text))) + colon;
    }
    if (lexeme === "{" || lexeme === "[") {
      open.push(kind === "arguments" || (open.at(-1) === false && NAMES_UNDER.has(key)));
      key = "";
      deepest = Math.max(deepest, open.length);
      return lexeme;
    }
    if (lexeme === "}" || lexeme === "]") {
      open.pop();
      key = "";
      return lexeme;
    }
    return String(Number(lexeme)) === lexeme ? lexeme : JSON.stringify(standIns.number(lexeme));
  });
  return deepest > MAX_DEPTH ? undefined : JSON.parse(replaced);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
