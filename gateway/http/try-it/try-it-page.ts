import type { FastifyInstance } from "fastify";
import { hostName, isAddress } from "../../../deploy/runtime/net/loopback.ts";
import { ApiError } from "../../errors.ts";
import type { OtherRoute } from "../../routes.ts";
import { PAGE_HEADERS, pageFiles } from "../page/page-files.ts";

const FOLDER = "gateway/http/try-it/page";
const SCRIPTS = [
  "answer.js",
  "code.js",
  "fold.js",
  "formats.js",
  "markdown.js",
  "reference.js",
  "talks.js",
  "try-it.js",
];
const FILES = ["try-it.html", "try-it.css", ...SCRIPTS];

/** The row of a page file, which is no route of the API: it requires no key, because the user has none yet. */
function rowOf(path: string): OtherRoute {
  return { path, methods: ["GET", "HEAD"], envelope: "a", operation: "try_it", use: "open", unrecorded: true };
}

/** Serves the page to try the API at `/`, with its files, if configured. The page keeps key and conversations for the tab. */
export function serveTryItPage(
  app: FastifyInstance,
  settings: { readonly hosts: readonly string[] } | undefined,
): void {
  if (!settings) return;
  for (const { name, type, body } of pageFiles(FOLDER, FILES)) {
    const path = name.endsWith(".html") ? "/" : `/try-it/${name}`;
    app.get(path, { config: { spec: rowOf(path) } }, async (request, reply) => {
      const host = hostName(request.headers.host);
      if (host === undefined || !(isAddress(host) || settings.hosts.includes(host)))
        throw new ApiError("permission_denied", "This page is not served under this name.");
      return reply.headers(PAGE_HEADERS).type(type).send(body);
    });
  }
}
