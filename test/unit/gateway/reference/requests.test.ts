import { describe, expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../../../gateway/catalog.ts";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CHAT_UNTAKEN } from "../../../../gateway/formats/chat/schema.ts";
import type { PrepareContext } from "../../../../gateway/formats/format.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { MESSAGES_UNTAKEN } from "../../../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../../../gateway/formats/request-body.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { openApiDocument } from "../../../../gateway/reference/openapi.ts";
import { FORMAT_SETTINGS } from "../../../support/events/format-settings.ts";
import { documentedPaths, undocumented, watched } from "../../../support/schemas/documented-paths.ts";
import { CHAT_BODIES, MESSAGES_BODIES, RESPONSES_BODIES } from "./bodies.ts";

/*
 * The reference and the programs are compared by the fields that a format reads of a body: each field read has to be
 * documented, and each documented field has to be read.
 */

const SCHEMAS = openApiDocument([]).components.schemas;

const sealer = { sign: (text: string) => text, seal: (text: string) => text, open: () => "opened" };

const context: PrepareContext = {
  sealer: () => sealer,
  acceptsImages: () => true,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
};

/** The paths of all fields that `read` reads in any of the bodies. */
function readPaths(bodies: readonly object[], read: (body: unknown) => unknown): ReadonlySet<string> {
  const seen = new Set<string>();
  for (const body of bodies) read(watched(body, (path) => seen.add(path)));
  return seen;
}

const ENDPOINTS = [
  ["ChatRequest", CHAT_BODIES, (body: unknown) => chat.prepare(body, context)],
  ["MessagesRequest", MESSAGES_BODIES, (body: unknown) => messages.prepare(body, context)],
  ["ResponsesRequest", RESPONSES_BODIES, (body: unknown) => responses.prepare(body, context)],
] as const;

const refusedOf = (fields: readonly UntakenField[]) =>
  fields.filter(({ becomes }) => becomes === "refused").map(({ field }) => field);

/** The fields that are read in order to be refused by name, which the reference lists in a table of their own. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  ChatRequest: [...refusedOf(CHAT_UNTAKEN), "messages[].function_call"],
  MessagesRequest: refusedOf(MESSAGES_UNTAKEN),
  ResponsesRequest: ["input[].content[].file_id", "input[].output[].file_id", "input[].id"],
};

describe.each(ENDPOINTS)("%s", (name, bodies, prepare) => {
  const documented = documentedPaths(SCHEMAS, [name]);
  const read = readPaths(bodies, prepare);

  test("every field that the format reads is documented", () => {
    const refused = new Set(REFUSED[name]);
    expect(undocumented(read, documented).filter((path) => !refused.has(path))).toEqual([]);
  });

  test("the format reads every documented field", () => {
    const unread = [...documented.all].filter((path) => !read.has(path) && !documented.inert.has(path));
    expect(unread).toEqual([]);
  });
});

test("a count documents no field that it does not read", () => {
  const read = readPaths(MESSAGES_BODIES, (body) => countTokens.prepare(body, context));
  const documented = documentedPaths(SCHEMAS, ["CountTokensRequest"]);
  const unread = [...documented.all].filter((path) => !read.has(path) && !documented.inert.has(path));
  // `thinking` is that of a message, which a count does not show.
  expect(unread).toEqual(["thinking.display"]);
});
