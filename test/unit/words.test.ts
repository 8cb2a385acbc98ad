import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** The forms that comments, test names and descriptions of settings and fields do not use: CONTRIBUTING, "Words". */
const BANNED =
  /\b(?:whoever|nobody|somebody|everybody|of late|by itself|go(?:es)? by|tells?|told|hears?|heard)\b|(?:^|[^\w])what (?:is|has|was|are|were|have)\b/gi;

/** The forms that names in code do not use, with the word that is used for them. */
const BANNED_NAMES = new RegExp(
  `^(?:${[
    String.raw`[a-z]\w*Came`, // HTTP/2: onReset
    String.raw`(?:let|go|got|went)(?:Go|On)\w*|say(?:[A-Z]\w*)`,
    String.raw`\w*(?:Traced|failed)Tr(?:y|ies)|try(?:Failed|Ended|Stat|Span)`, // Envoy: attempt
    String.raw`gates?|\w*Gate(?:s|d|Wait|Pass|Parts|keeper)?`, // checks, throttle, boundary
    String.raw`\w*Placements?|\w*Place(?:Item|Limit)|takePlaces?|placesTaken|(?:Agent|Engine|Gateway)Place|findPlace`, // observer, permit, ports
    String.raw`room|\w*Room`, // capacity, budget
    "(?:Work|Loop)Turns", // slices
    "inTime|decides|parted|wholeFrom|charsBefore|onlyFormat", // riddles
  ].join("|")})$`,
);
const NAMES = /(?<!["'`\w$-])#?[a-z]\w*(?=\s*[(:=,;)}])|(?<=\b(?:class|type|interface)\s)\w+/g;
/** Constants, which are written in capitals. */
const CONSTANTS = /(?<=\bconst\s)[A-Z][A-Z\d]*(?:_[A-Z\d]+)*\b/g;

const SLASH_COMMENTS = /\/\*[\s\S]*?\*\/|(?<!:)\/\/.*(?:\n\s*\/\/.*)*/g;
/** Comments with `#`, and docstrings. */
const HASH_COMMENTS = /(?<=^|\s)#.*(?:\n\s*#.*)*|"""[\s\S]*?"""/gm;
const TEST_NAMES = /(?<=\b(?:test|describe)(?:\.\w+(?:\([^)]*\))?)?\(\s*["'`])[^"'`]+/g;

/** The beginnings of names that leave their subject to the title of a group. */
const SUBJECTLESS =
  /^(?:is|are|was|were|has|have|does|can|keeps?|gets?|becomes?|lets|begins|continues|refuses|that|but|nor) /;

function filesOf(...patterns: readonly string[]): readonly string[] {
  return execFileSync("git", ["ls-files", ...patterns], { cwd: ROOT, encoding: "utf8" })
    .trim()
    .split("\n");
}

/** Returns the banned forms in the matches of the patterns, also those that a line break divides. */
function bannedIn(files: readonly string[], ...prose: readonly RegExp[]): readonly string[] {
  return files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    const found = prose.flatMap((pattern) => text.match(pattern) ?? []);
    return found.flatMap((part) =>
      (part.replace(/\n\s*(?:\*|\/\/|#)?\s*/g, " ").match(BANNED) ?? []).map((form) => `${file}: ${form}`),
    );
  });
}

test("comments and test names do not use banned forms", () => {
  expect(bannedIn(filesOf("*.ts", ":!proto/gen"), SLASH_COMMENTS, TEST_NAMES)).toEqual([]);
});

test("names of tests have a subject", () => {
  const found = filesOf("test/*.test.ts").flatMap((file) => {
    const names = readFileSync(join(ROOT, file), "utf8").match(TEST_NAMES) ?? [];
    return names.filter((name) => SUBJECTLESS.test(name)).map((name) => `${file}: ${name}`);
  });
  expect(found).toEqual([]);
});

test("comments of the contract and of other files do not use banned forms", () => {
  expect(bannedIn(filesOf("*.proto", "*.mjs", "*.js", "*.go", "*.css"), SLASH_COMMENTS)).toEqual([]);
  // The cases are output of models.
  const hashed = filesOf("*.yaml", "*.py", "*Containerfile", "*/run", "*/on-node", ".npmrc", ":!*/family-cases/*");
  expect(bannedIn(hashed, HASH_COMMENTS)).toEqual([]);
});

test("documents do not use banned forms", () => {
  const found = filesOf("*.md").flatMap((page) => {
    // CONTRIBUTING lists the forms.
    const text = readFileSync(join(ROOT, page), "utf8").replace(/^## Words\n[\s\S]*?(?=^## )/m, "");
    return (text.match(BANNED) ?? []).map((form) => `${page}: ${form}`);
  });
  expect(found).toEqual([]);
});

test("names in code do not use banned forms", () => {
  const found = filesOf("gateway/*.ts", "engine/*.ts", "deploy/*.ts").flatMap((file) => {
    const code = readFileSync(join(ROOT, file), "utf8").replace(SLASH_COMMENTS, "");
    const constants = code.match(CONSTANTS) ?? [];
    const names = new Set(code.match(NAMES)?.map((name) => name.replace("#", "")));
    for (const name of constants)
      names.add(name.toLowerCase().replace(/_(\w)/g, (_, first: string) => first.toUpperCase()));
    return [...names].filter((name) => BANNED_NAMES.test(name)).map((name) => `${file}: ${name}`);
  });
  expect(found).toEqual([]);
});
