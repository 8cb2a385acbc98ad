import * as z from "zod";
import type { CacheBreakpoint, Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../errors.ts";
import { schemaText } from "./json-schema-limits.ts";

/** The most tools that one request may have. */
export const MAX_TOOLS = 512;

/** The name of a tool, wider than the formats' own rule: names of MCP tools hold dots and colons. */
export const toolName = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,128}$/, "expected 1 to 128 characters out of letters, digits, '_', '-', '.' and ':'.");

/** The schema of a tool that names none and so takes no arguments. */
export const EMPTY_PARAMETERS = '{"type":"object","properties":{}}';

type ToolSource = {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
};

/**
 * Makes a tool of a checked definition and its `schema`, at `path`; one without takes no arguments. Throws `ApiError`
 * for a schema that is not within the limits.
 */
export function toolOf(
  { name, description, strict }: ToolSource,
  schema: unknown,
  path: FieldPath,
  cacheBreakpoint?: CacheBreakpoint | undefined,
): Tool {
  const isStrict = strict ?? false;
  const parametersJsonSchema =
    schema === undefined || schema === null ? EMPTY_PARAMETERS : schemaText(schema, path, "function", isStrict);
  return { name, description: description ?? "", parametersJsonSchema, strict: isStrict, cacheBreakpoint };
}
