import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError } from "../../../../deploy/runtime/config/load-config.ts";
import { loadProfile } from "../../../../engine/profiles/profile.ts";
import { HERMES_MARKERS } from "../../../support/engine/hermes-markers.ts";

const NAMES = readdirSync(new URL("../../../../engine/profiles", import.meta.url)).flatMap((file) =>
  file.endsWith(".yaml") ? [file.replace(/\.yaml$/, "")] : [],
);

const folder = mkdtempSync(join(tmpdir(), "profile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(NAMES)("the profile %s is well formed", (name) => {
  const { thinking, reasoning, toolCall } = loadProfile(name);
  if (thinking) expect(reasoning).toBeDefined();
  if (thinking?.default === "always") expect(thinking.off).toBeUndefined();
  else if (thinking) expect(thinking.off).not.toEqual(thinking.on);
  expect(toolCall).toBeDefined();
});

test.each(["gemma", "glm", "gpt-oss", "kimi", "qwen", "minimax", "deepseek", "hermes", "llama", "mistral"])(
  "the family %s has a profile",
  (family) => {
    expect(NAMES.some((name) => name.startsWith(family))).toBe(true);
  },
);

test("the Hermes profile with reasoning has the markers that the parser supports", () => {
  const { reasoning, toolCall } = loadProfile("hermes-thinking");
  expect({ reasoning, toolCall }).toEqual(HERMES_MARKERS);
});

test("a custom file is read by its path", () => {
  const file = join(folder, "own.yaml");
  writeFileSync(file, 'family: Own\ntoolCall: { form: json-list, open: "[CALLS]" }\n');
  expect(loadProfile(file)).toMatchObject({ family: "Own", callIds: "any", toolCall: { close: "" } });
});

test.each([
  ["an unknown key", "family: Own\ncolour: red\n", /colour/],
  ["an unknown form", 'family: Own\ntoolCall: { form: runes, open: "x" }\n', /toolCall/],
  ["a word for a switch", "family: Own\nthinking: { default: perhaps }\n", /thinking.default/],
  ["broken YAML", "family: [", /broken.yaml/],
])("%s stops the start", (_what, source, message) => {
  const file = join(folder, "broken.yaml");
  writeFileSync(file, source);
  expect(() => loadProfile(file)).toThrow(ConfigError);
  expect(() => loadProfile(file)).toThrow(message);
});

test.each(["nope", "", "..", "/nope/none.yaml"])("there is no profile %j", (name) => {
  expect(() => loadProfile(name)).toThrow(ConfigError);
});
