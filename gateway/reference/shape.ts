import * as z from "zod";
import { EFFORTS } from "../formats/reasoning-effort.ts";

/*
 * The forms in which schemas of this room are written down. They describe and check nothing at run time: the formats
 * check by what stands in their own rooms, from which the plain fields here come.
 */

/** The key in a JSON Schema that marks what is accepted and changes nothing. */
export const NO_EFFECT = "x-no-effect";

/**
 * Makes an object of a request or a reply that the reference shows under `id`. Keys beside those of `shape` may stand
 * in it.
 */
export function named<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.looseObject(shape).meta({ id, description });
}

/** Makes an object as `named` does, in which no other keys may stand. */
export function closed<Shape extends z.ZodRawShape>(id: string, description: string, shape: Shape) {
  return z.strictObject(shape).meta({ id, description });
}

/** Makes the value of an optional field that is accepted and changes nothing. */
export function withoutEffect(description: string) {
  return z
    .unknown()
    .optional()
    .meta({ description, [NO_EFFECT]: true });
}

/** Makes the value of a field that holds a JSON Schema of the caller. */
export function jsonSchemaField(description: string) {
  return z.looseObject({}).meta({ description });
}

/** Makes the field that tells objects of several forms apart. */
export function tag<const Name extends string>(name: Name) {
  return z.literal(name).meta({ description: `Always \`${name}\`.` });
}

/** A reusable prefix of the prompt that a caller marks. */
export const cacheControl = named(
  "CacheControl",
  "A mark that a reusable beginning of the prompt ends here. It is a hint and never refused.",
  {
    type: withoutEffect("The format's own word, `ephemeral`."),
    ttl: z
      .enum(["5m", "30m", "1h", "6h", "24h"])
      .optional()
      .describe(
        "How long the beginning is worth keeping; any other value is the default. Default: the node's own time.",
      ),
  },
)
  .nullish()
  .describe("A mark that a reusable beginning of the prompt ends here.");

/** The model of a request. */
export const modelId = z.string().describe("The id of the model, out of those that `GET /v1/models` lists.");

/** The words for how much to reason. */
export const effort = z.enum(Object.keys(EFFORTS));

/** Returns a schema with what another says about its field, whose values it tells more exactly. */
export function like<Exact extends z.ZodType>({ description = "" }: z.ZodType, exact: Exact) {
  return exact.describe(description);
}
