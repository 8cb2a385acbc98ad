import * as z from "zod";
import { unchecked } from "./checked.ts";

/*
 * The forms of the formats' schemas. Requests are checked by them (`checked.ts`), and the documentation of requests and
 * replies is generated from them.
 */

/** The JSON Schema key of fields that are accepted without effect. */
export const NO_EFFECT = "x-no-effect";

/**
 * Makes an object of a request or a reply that the reference shows under `id`. Other keys than those of `shape` are
 * accepted.
 */
export function named<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.object(shape).meta({ id, description });
}

/** Makes an object as `named` does, which accepts no other keys. */
export function closed<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.strictObject(shape).meta({ id, description });
}

/** Makes the value of an optional field that is accepted without effect. */
export function withoutEffect(description: string) {
  return z
    .unknown()
    .optional()
    .meta({ description, [NO_EFFECT]: true });
}

/** Marks a value that is checked but has no effect. */
export function inert<Inert extends z.ZodType>(schema: Inert, description: string) {
  return schema.meta({ description, [NO_EFFECT]: true });
}

/** Makes the value of a field that holds a JSON Schema of the caller. */
export function jsonSchemaField(description: string) {
  return z.looseObject({}).meta({ description });
}

/** Makes the field that distinguishes objects of several forms. `others` explains why no other form is supported. */
export function tag<const Name extends string>(name: Name, others?: string) {
  return z.literal(name, others).meta({ description: `Always \`${name}\`.` });
}

/** A reusable prefix of the prompt that a caller marks. */
export const cacheControl = unchecked(
  named("CacheControl", "A mark that a reusable beginning of the prompt ends here. It is a hint and never refused.", {
    type: withoutEffect("The format's own word, `ephemeral`."),
    ttl: z
      .enum(["5m", "30m", "1h", "6h", "24h"])
      .optional()
      .describe(
        "How long the beginning is worth keeping; any other value is the default. Default: the node's own time.",
      ),
  }).nullish(),
).describe("A mark that a reusable beginning of the prompt ends here.");

/** The model of a request. */
export const modelId = z.string().describe("The id of the model, out of those that `GET /v1/models` lists.");

/** Whether a tool or an answer is held to the whole of its schema. */
export const strictFlag = z
  .boolean()
  .nullish()
  .describe("Whether the arguments are held to the whole schema; see *Structured output*. Default: `false`.");

/** The name of the schema of an answer. */
export const schemaName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters out of letters, digits, '_' and '-'.")
  .describe("The name of the schema.");

/** A part of a reply as its schema describes it; its writer never changes it. */
export type Written<Schema extends z.ZodType> = Unchanged<z.infer<Schema>>;

type Unchanged<Value> = Value extends object ? { readonly [Key in keyof Value]: Unchanged<Value[Key]> } : Value;
