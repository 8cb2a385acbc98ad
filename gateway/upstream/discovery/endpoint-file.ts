import { parse } from "yaml";
import * as z from "zod";
import { type EndpointSpec, endpointsSchema } from "./endpoint-schema.ts";

const schema = z.strictObject({ endpoints: endpointsSchema });

/** An unusable endpoint file. The message names the path of the bad key. */
export class EndpointFileError extends Error {
  override readonly name = "EndpointFileError";
}

/** Returns the endpoints in a file's text, in YAML or JSON. Throws `EndpointFileError`. */
export function parseEndpointFile(text: string): readonly EndpointSpec[] {
  let document: unknown;
  try {
    document = parse(text);
  } catch (cause) {
    throw new EndpointFileError("not YAML or JSON", { cause });
  }
  const checked = schema.safeParse(document);
  if (checked.success) return checked.data.endpoints;
  const [issue] = checked.error.issues;
  throw new EndpointFileError(`${issue?.path.join(".") || "(root)"}: ${issue?.message}`);
}
