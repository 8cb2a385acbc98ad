import { expect, test } from "vitest";
import { withinOutputLimit } from "../../../../../gateway/http/access/model-access.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";
import { principalWith } from "../../limits/principal-with.ts";

const REASONING = { mode: 2, effort: 0 } as const;

test.each([
  ["asks for more", { maxOutputTokens: 500 }, { maxOutputTokens: 100 }],
  ["does not say", {}, { maxOutputTokens: 100 }],
  ["asks for as much", { maxOutputTokens: 100 }, { maxOutputTokens: 100 }],
  ["asks for less", { maxOutputTokens: 7 }, { maxOutputTokens: 7 }],
  [
    "thinks longer than it may answer",
    { maxOutputTokens: 500, reasoning: { ...REASONING, budgetTokens: 400 } },
    { maxOutputTokens: 100, reasoning: { ...REASONING, budgetTokens: 99 } },
  ],
  [
    "thinks for as long as it likes",
    { maxOutputTokens: 500, reasoning: REASONING },
    { maxOutputTokens: 100, reasoning: REASONING },
  ],
])("a request that %s gets what its key allows", (_what, asked, given) => {
  const request = { ...generateRequest(), maxOutputTokens: undefined, ...asked };
  expect(withinOutputLimit(request, principalWith({ maxOutputTokens: 100 }))).toMatchObject(given);
});

test("a key without the limit changes nothing", () => {
  const request = generateRequest();
  expect(withinOutputLimit(request, principalWith({}))).toBe(request);
});
