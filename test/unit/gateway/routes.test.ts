import { describe, expect, test } from "vitest";
import { envelopeOf, OFFERED_PATHS, ROUTES, type RouteSpec, routeAt, urlPattern } from "../../../gateway/routes.ts";

describe("the table of routes", () => {
  test.each(ROUTES)(
    "$path says what it costs; only probes and the contract are free of keys",
    ({ use, methods, operation }) => {
      expect(use === "open").toBe(operation === "probe" || operation === "health" || operation === "get_contract");
      if (use !== "none" && use !== "open") expect(methods).toEqual(["POST"]);
    },
  );

  test("a route that does not say what it costs does not compile", () => {
    const facts = { path: "/v1/new", methods: ["POST"], envelope: "a", operation: "new" } as const;
    // @ts-expect-error: `use` is missing.
    const spec: RouteSpec = facts;
    expect(spec).toBe(facts);
  });

  test("no route stands there twice", () => {
    const patterns = ROUTES.map(urlPattern);
    expect(new Set(patterns).size).toBe(patterns.length);
  });
});

describe("a path", () => {
  test.each([
    ["/v1/chat/completions", "chat"],
    ["/v1/messages/count_tokens", "count_tokens"],
    ["/v1/responses/compact", "compact"],
    ["/v1/responses/input_tokens", "input_tokens"],
    ["/v1/models", "list_models"],
    ["/v1/models/a/b", "get_model"],
  ])("%s is that of %s", (path, operation) => expect(routeAt(path)?.operation).toBe(operation));

  test.each(["/", "/api/hello", "/v1", "/v1/message", "/v1/messages/", "/v1/responses/x", "toString"])(
    "%s is that of no route with a key",
    (path) => expect(routeAt(path)).toBeUndefined(),
  );

  test.each([
    ["/v1/messages", "b"],
    ["/v1/messages/batches", "b"],
    ["/v1/messagesx", "a"],
    ["/v1/models/x", "a"],
    ["/elsewhere", "a"],
  ])("%s has errors in envelope %s", (path, envelope) => expect(envelopeOf(path)).toBe(envelope));

  test("the refusal of another path lists those without a parameter", () => {
    expect(OFFERED_PATHS.join(" ")).toBe(
      "/v1/chat/completions /v1/messages /v1/messages/count_tokens /v1/responses /v1/responses/compact /v1/responses/input_tokens /v1/models /openapi.json",
    );
  });
});
