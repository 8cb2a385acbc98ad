import type { FastifyReply, FastifyRequest } from "fastify";
import type { Catalog } from "../../catalog.ts";
import { openApiDocument } from "../../reference/openapi.ts";

/** Makes the handler of GET /openapi.json. The document is serialized once. */
export function contractRoute({ models }: Catalog) {
  const text = JSON.stringify(openApiDocument(models.map(({ id }) => id)));
  return async (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    reply.type("application/json; charset=utf-8").send(text);
}
