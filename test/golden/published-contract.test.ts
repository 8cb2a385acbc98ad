import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CATALOG } from "../../gateway/catalog.ts";
import { openApiDocument } from "../../gateway/reference/openapi.ts";
import { PublishedContract } from "../support/schemas/published-contract.ts";

/*
 * The golden files are the exact bytes of replies. The schemas of `GET /openapi.json` have to accept all of them, by an
 * independent validator.
 */

const contract = new PublishedContract(openApiDocument(CATALOG.map(({ id }) => id)));

const PATHS = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" };
const FORMATS = Object.entries(PATHS).map(([format, path]) => ({ format, path }));

const text = (...path: readonly string[]): string => readFileSync(join(import.meta.dirname, ...path), "utf8");
const scenarios = (folder: string): readonly string[] => readdirSync(join(import.meta.dirname, folder));

describe.each(FORMATS)("$format", ({ format, path }) => {
  test.each(scenarios("transcripts"))("the answer %s is what the document says", (scenario) => {
    const reply = JSON.parse(text("transcripts", scenario, `${format}.json`));
    expect(contract.replies(path, 200, reply)).toBe(true);
    expect(contract.unknownFrames(path, text("transcripts", scenario, `${format}.sse`))).toEqual([]);
    // A validator that accepts everything would accept this, too.
    expect(contract.replies(path, 200, { ...reply, id: 1 })).toBe(false);
  });

  test("a stream whose engine was lost matches the document", () => {
    expect(contract.unknownFrames(path, text("engine-lost", `${format}.sse`))).toEqual([]);
  });
});

test.each(Object.entries(openApiDocument(["svc-glm53"]).paths))(
  "the example of %s is a request that it takes",
  (path, item) => {
    const example = (item.post as Operation | undefined)?.requestBody?.content["application/json"].example;
    if (example !== undefined) {
      expect(contract.takes(path, example)).toBe(true);
      expect(contract.takes(path, { ...example, model: 1 })).toBe(false);
    }
    expect(example === undefined).toBe(item.post === undefined);
  },
);

type Operation = {
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly example: object } } };
};
