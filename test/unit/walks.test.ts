import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

/*
 * The walks of CONTRIBUTING: each names the files that a kind of change touches. An earlier change of the kind is held
 * against its list: sources that contain the change's name and are not on the list fail.
 */

const ROOT = join(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, ".github/CONTRIBUTING.md"), "utf8");

type Walk = { readonly name: string; readonly paths: readonly string[] };

/** Each walk begins with its name in bold, below the heading. */
const WALKS: readonly Walk[] = (PAGE.split("\n## Walks\n")[1] ?? "").split(/^(?=\*\*)/m).flatMap((part) => {
  const [, name] = /^\*\*(.+?)\.?\*\*/.exec(part) ?? [];
  const paths = [...part.matchAll(/`((?:gateway|engine|deploy|proto|test)\/[^`\s]+)`/g)].map(([, path = ""]) => path);
  return name === undefined ? [] : [{ name, paths }];
});

/** Matches a path of a list: `<name>` is any name, and a folder stands for all that it holds. */
function covers(listed: string, file: string): boolean {
  const pattern = listed
    .replace(/[.+()[\]]/g, "\\$&")
    .replaceAll("*", "[^/]*")
    .replaceAll(/<[^>]+>/g, "[^/]+");
  return new RegExp(`^${pattern}${listed.endsWith("/") ? "" : "$"}`).test(file);
}

const SOURCES = ["gateway", "engine", "deploy", "proto/svc"].flatMap((room) =>
  readdirSync(join(ROOT, room), { recursive: true, encoding: "utf8" })
    .map((file) => join(room, file))
    .filter(
      (file) => /\.(?:ts|proto|yaml)$/.test(file) && !/^deploy\/(?:monitoring|kubernetes|compose|envoy)\//.test(file),
    ),
);

/** Earlier changes of each kind, by the names that they brought. */
const CHANGES: readonly (readonly [walk: string, name: RegExp])[] = [
  ["A model family", /minimax-m3/],
  ["A form of tool call", /json-list/],
  ["A field of a request", /thinking_token_budget/],
  ["A field of a request", /prompt_cache_retention/],
  ["A sampling parameter, A field of a request", /repetition_?[pP]enalty/],
  ["A sampling parameter, A field of a request", /\bmin_?[pP]\b/],
  ["A kind of limit", /\bitpm\b/],
  ["A kind of limit", /\btokensPerDay\b/],
  ["A load-balancing policy", /round_robin/],
  ["A backend", /scripted/],
  ["A metric", /svc_agent_tool_seconds/],
  ["A metric", /svc_engine_decoder_passes_total/],
];

describe("the walks of CONTRIBUTING", () => {
  test.each(CHANGES)("%s: its list has every source that %s touched", (walk, name) => {
    const paths = WALKS.filter(({ name: one }) => walk.split(", ").includes(one)).flatMap((one) => one.paths);
    const touched = SOURCES.filter((file) => name.test(file) || name.test(readFileSync(join(ROOT, file), "utf8")));
    expect(touched.length).toBeGreaterThan(0);
    expect(touched.filter((file) => !paths.some((listed) => covers(listed, file)))).toEqual([]);
  });

  test("every path of a list leads to a file", () => {
    const files = ["gateway", "engine", "deploy", "proto", "test"].flatMap((room) =>
      readdirSync(join(ROOT, room), { recursive: true, encoding: "utf8" }).map((file) => join(room, file)),
    );
    const dead = WALKS.flatMap(({ name, paths }) =>
      paths.filter((listed) => !files.some((file) => covers(listed, file))).map((listed) => `${name}: ${listed}`),
    );
    expect(WALKS.length).toBeGreaterThan(8);
    expect(dead).toEqual([]);
  });
});
