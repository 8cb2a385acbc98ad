import { createRequire } from "node:module";

type Validate = (value: unknown) => boolean;
type Ajv = { compile(schema: unknown): Validate };

/*
 * Ajv, which has no part in what it judges here. It comes along with fastify's compiler of validators, and so it is
 * asked for where that is.
 */
const compiler = createRequire(createRequire(import.meta.resolve("fastify")).resolve("@fastify/ajv-compiler"));
const { Ajv2020 } = compiler("ajv/dist/2020") as { Ajv2020: new (options: object) => Ajv };
const { default: addFormats } = compiler("ajv-formats") as { default: (ajv: Ajv) => void };

/**
 * Makes the function that says whether values satisfy a JSON Schema of draft 2020-12, formats and all, as another's
 * code sees it.
 */
export function independentValidator(schema: unknown): Validate {
  const ajv = new Ajv2020({ strict: false });
  addFormats(ajv);
  return ajv.compile(schema);
}
