import { createRequire } from "node:module";

type Validate = (value: unknown) => boolean;
type Ajv = { compile(schema: unknown): Validate };

/*
 * Ajv, an implementation independent of this project. It is a dependency of fastify's validator compiler, so it is
 * resolved from there.
 */
const compiler = createRequire(createRequire(import.meta.resolve("fastify")).resolve("@fastify/ajv-compiler"));
const { Ajv2020 } = compiler("ajv/dist/2020") as { Ajv2020: new (options: object) => Ajv };
const { default: addFormats } = compiler("ajv-formats") as { default: (ajv: Ajv) => void };

const ajv = new Ajv2020({ strict: false });
addFormats(ajv);

/**
 * Returns a function that validates values against a JSON Schema of draft 2020-12, with formats, by an independent
 * implementation.
 */
export function independentValidator(schema: unknown): Validate {
  return ajv.compile(schema);
}
