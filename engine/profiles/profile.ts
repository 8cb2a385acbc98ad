import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import { ConfigError } from "../config.ts";

/*
 * What a node has to know about a family of models, as data. Where a template writes no white space beside a mark, the
 * field is left out.
 */

/** Variables of the chat template, by name. */
const templateKwargs = z.record(z.string().min(1), z.union([z.string(), z.number(), z.boolean()]));

const effort = z.strictObject({
  templateKwargs: templateKwargs.default({}).describe("Added to those of `on`."),
  reasoningEffort: z.string().min(1).optional().describe("The template's own word for it."),
  budgetTokens: z.int().min(1).optional().describe("Tokens of reasoning, unless the request says how many."),
});

const thinking = z.strictObject({
  default: z
    .enum(["on", "off", "always"])
    .describe("What a request gets that does not say; as a rule what the template does when it is told nothing."),
  on: templateKwargs.default({}),
  off: templateKwargs.optional().describe("Absent: it cannot be switched off."),
  effort: z.strictObject({ low: effort, medium: effort, high: effort }).optional(),
});

const text = z.string().default("");
const mark = z.string().min(1);

const reasoning = z.strictObject({
  open: mark,
  close: mark,
  afterOpen: text,
  beforeClose: text,
  afterClose: text,
  endedByCall: z
    .boolean()
    .optional()
    .describe("The mark of a call ends it too. Default: no, there it is only mentioned."),
});

/*
 * What a grammar enforces of a call that was asked for (or, of a strict tool, that the model makes by itself), in every
 * form but the last: the marks, the name, and the arguments. Where the arguments are JSON: all of the schema but what is
 * refused for strict tools. Where they are text between tags: the declared parameters in their order, the required ones,
 * and each value by its schema; of a value that is a string only `enum`, `const` and `format`.
 */

const toolCall = z.discriminatedUnion("form", [
  z
    .strictObject({
      form: z.literal("json"),
      open: mark,
      close: mark,
      afterOpen: text,
      beforeClose: text,
      separator: text,
    })
    .describe('`open {"name": …, "arguments": {…}} close`'),
  z
    .strictObject({
      form: z.literal("bare-json"),
      argumentsKey: mark,
      prefix: text.describe("May stand before the object."),
      separator: text,
    })
    .describe('`{"name": …, argumentsKey: {…}}`, with no mark around it'),
  z
    .strictObject({ form: z.literal("json-list"), open: mark, close: text })
    .describe('`open [{"name": …, "arguments": {…}}, …] close`'),
  z
    .strictObject({
      form: z.literal("sections"),
      open: text,
      close: text,
      callOpen: mark,
      nameEnd: mark,
      callClose: text,
      nameIsId: z.boolean().default(false).describe("The name is written as `functions.name:index`."),
      idOpen: text.describe("Stands between the name and an id, where one is written."),
    })
    .describe("`open callOpen NAME nameEnd {…} callClose … close`"),
  z
    .strictObject({
      form: z.literal("key-value-tags"),
      open: mark,
      close: mark,
      separator: text,
      keyOpen: mark,
      keyClose: mark,
      valueOpen: mark,
      valueClose: mark,
    })
    .describe("`open NAME keyOpen KEY keyClose valueOpen VALUE valueClose … close`"),
  z
    .strictObject({
      form: z.literal("named-tags"),
      open: mark,
      close: mark,
      separator: text,
      callOpen: mark,
      callNameEnd: mark,
      callClose: mark,
      parameterOpen: mark,
      parameterNameEnd: mark,
      parameterClose: mark,
      typedParameters: z.boolean().default(false).describe('A parameter says `string="true"` behind its name.'),
      oneCall: z.boolean().default(false).describe("Several calls are several groups: each has its own outer marks."),
    })
    .describe(
      "`open callOpen NAME callNameEnd parameterOpen KEY parameterNameEnd VALUE parameterClose … callClose close`",
    ),
  z
    .strictObject({ form: z.literal("engine-only"), open: mark })
    .describe("Only the parser of the engine that serves the model reads it."),
]);

const gguf = z.strictObject({
  architectures: z.array(mark).default([]).describe("`general.architecture` is one of these; none: any."),
  names: z.array(mark).default([]).describe("`general.name` holds one of these, in any case; none: any."),
  template: z.array(mark).min(1).describe("The chat template holds all of these."),
});

const parsers = z.strictObject({ toolCall: mark.optional(), reasoning: mark.optional() });

const schema = z.strictObject({
  family: mark.describe("For people."),
  thinking: thinking.optional().describe("Absent: the model does not reason."),
  reasoning: reasoning.optional().describe("How the model marks its reasoning."),
  toolCall: toolCall.optional().describe("How the model writes a call. Absent: it calls no tools."),
  callIds: z
    .enum(["any", "functions.name:index", "nine-characters"])
    .default("any")
    .describe("What the template demands of the ids of earlier calls."),
  historyArguments: z
    .enum(["value", "text"])
    .default("value")
    .describe("Whether the template takes the arguments of earlier calls as a value, or as JSON text."),
  gguf: gguf
    .optional()
    .describe("Which model files it fits; of several profiles the one that says more. Absent: only by name."),
  parsers: z
    .strictObject({ vllm: parsers.optional(), sglang: parsers.optional() })
    .prefault({})
    .describe("The parser names that the engines are to be started with."),
});

export type ModelProfile = Readonly<z.infer<typeof schema>>;
export type ThinkingEffort = z.infer<typeof effort>;

/** A profile that this service brings. */
export type NamedProfile = { readonly name: string; readonly profile: ModelProfile };

/** The profiles that this service brings lie beside their source: built code takes no data files along. */
const FOLDER = join(projectFolder(), "engine/profiles");

/**
 * Reads and checks a profile: the name of one that this service brings, or the path of a YAML file (with a slash in it).
 * Throws `ConfigError`, which names the path of the bad key.
 */
export function loadProfile(nameOrPath: string): ModelProfile {
  const file = nameOrPath.includes("/") ? nameOrPath : `${nameOrPath}.yaml`;
  const checked = schema.safeParse(readYaml(nameOrPath.includes("/") ? [file] : builtInPaths(file), nameOrPath));
  if (checked.success) return checked.data;
  const lines = checked.error.issues.map((issue) => `${file}: ${issue.path.join(".") || "(root)"}: ${issue.message}`);
  throw new ConfigError(lines.join("\n"));
}

/** All profiles that this service brings, by name. */
export function builtInProfiles(): readonly NamedProfile[] {
  return namesIn(FOLDER)
    .sort()
    .map((name) => ({ name, profile: loadProfile(name) }));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((file) => (file.endsWith(".yaml") ? [file.slice(0, -".yaml".length)] : []));
  } catch {
    return [];
  }
}

function builtInPaths(file: string): readonly string[] {
  if (!/^[a-z0-9.-]+$/.test(file)) return [];
  return [join(FOLDER, file)];
}

function readYaml(paths: readonly string[], shownName: string): unknown {
  for (const path of paths) {
    let source: string;
    try {
      source = readFileSync(path, "utf8");
    } catch {
      continue;
    }
    try {
      return parse(source);
    } catch (error) {
      throw new ConfigError(`${shownName}: ${error instanceof Error ? error.message : "is not YAML"}`, {
        cause: error,
      });
    }
  }
  throw new ConfigError(`profile: there is no model profile ${JSON.stringify(shownName)}.`);
}
