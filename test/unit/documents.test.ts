import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize, resolve } from "node:path";
import { expect, test } from "vitest";

/*
 * Documents name files and headings, and comments name documents. This test reads them again when a file moves.
 */

const ROOT = resolve(import.meta.dirname, "../..");

const NO_SOURCES: ReadonlySet<string> = new Set([
  ...["node_modules", "dist", ".git", ".svc", ".tools", "coverage", "bench-results"],
]);

function filesBelow(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (!entry.isDirectory()) return [path];
    return NO_SOURCES.has(entry.name) ? [] : filesBelow(path);
  });
}

const files = filesBelow("");
const known = new Set(files);
const names = new Set(files.map((file) => basename(file)));
const documents = files.filter((file) => file.endsWith(".md"));
const sources = files.filter((file) => /\.(?:ts|mjs|proto)$/.test(file) && !file.startsWith("proto/gen/"));

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** Without the names of settings that are gone. */
const identifiers: ReadonlySet<string> = new Set(
  files
    .filter((file) => /\.(?:ts|mjs|proto|js)$/.test(file) && !file.endsWith("gone-keys.ts"))
    .flatMap((file) => read(file).match(/[A-Za-z_$][\w$]*/g) ?? []),
);

/** Files that the service, its build or the reader of a document writes, or that are examples. */
const NOT_HERE = /^(?:\.svc|dist|node_modules|bench-results|~|\/|path|\$)/;

/** Where a path in `file` may begin: beside the file, in the room that it describes, or at the root. */
function candidates(file: string, path: string): readonly string[] {
  const rooms = [
    "",
    "gateway",
    "engine",
    "engine/backends",
    "engine/conversation",
    "engine/grammar",
    "deploy",
    "test",
    "proto",
    "gateway/upstream",
    "gateway/http",
    "gateway/formats",
    dirname(file),
    dirname(dirname(file)),
  ];
  return rooms.map((room) => normalize(join(room, path)));
}

function stands(file: string, path: string): boolean {
  return candidates(file, path).some(
    (one) => known.has(one) || files.some((other) => other.startsWith(`${one.replace(/\/$/, "")}/`)),
  );
}

test.each(documents)("every link of %s leads to a file", (document) => {
  const links = [...read(document).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  const relative = links.filter((target) => !/^[a-z]+:|^#/.test(target)).map((target) => target.replace(/#.*$/, ""));
  const dead = relative.filter((target) => !known.has(normalize(join(dirname(document), target))));
  expect(dead).toEqual([]);
});

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

test.each(documents)("every anchor in a link of %s is a heading", (document) => {
  const links = [...read(document).matchAll(/\]\(([^)\s#]*)#([^)\s]+)\)/g)].filter(
    ([, path = ""]) => !/^[a-z]+:/.test(path),
  );
  const wrong = links.flatMap(([, path = "", anchor = ""]) => {
    const target = path === "" ? document : normalize(join(dirname(document), path));
    const headings = [...read(target).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));
    return headings.includes(anchor) ? [] : [`${path}#${anchor}`];
  });
  expect(wrong).toEqual([]);
});

const INDEX = "deploy/docs/README.md";

test("the index leads to every document", () => {
  const links = [...read(INDEX).matchAll(/\]\(([^)\s#]+)/g)].map(([, path = ""]) =>
    normalize(join(dirname(INDEX), path)),
  );
  expect(documents.filter((document) => document !== INDEX && !links.includes(document))).toEqual([]);
});

const isGenerated = (document: string) => read(document).includes("<!-- Written by `npm run docs`");

/**
 * What a reader can be asked to go through: a page, whatever the number of pages. A generated page is searched, not
 * read; a changelog grows.
 */
test.each([
  { what: "bytes of the largest written page", most: 12 * 1024, of: () => Math.max(...writtenPages().map(bytesOf)) },
  { what: "lines of README.md", most: 130, of: () => read("README.md").trimEnd().split("\n").length },
])("$what: at most $most", ({ of, most }) => {
  expect(of()).toBeLessThanOrEqual(most);
});

function writtenPages(): readonly string[] {
  return documents.filter((document) => !isGenerated(document) && basename(document) !== "CHANGELOG.md");
}

function bytesOf(document: string): number {
  return Buffer.byteLength(read(document));
}

test.each(documents)("every file that %s names is there", (document) => {
  const words = [...read(document).matchAll(/`([^`\s]+)`/g)].map(([, word = ""]) => word);
  const paths = words.filter(
    (word) => /^[\w./-]+\.(?:ts|mjs|proto|md|yaml|json)$/.test(word) || /^[\w-]+(?:\/[\w.-]+)*\/$/.test(word),
  );
  const named = paths.filter((path) => path.includes("/") && !NOT_HERE.test(path));
  expect(named.filter((path) => !stands(document, path))).toEqual([]);
  const bare = words.filter((word) => /^[\w.-]+\.(?:ts|mjs|proto)$/.test(word));
  expect(bare.filter((name) => !names.has(name))).toEqual([]);
});

/** Settings of other programs. */
const FOREIGN_SETTINGS: ReadonlySet<string> = new Set([
  "healthCheck",
  "loadBalancer",
  "readTimeout",
  "respondingTimeouts",
]);

test.each(documents)("every setting and field that %s names is in a source", (document) => {
  const spans = [
    ...read(document)
      .replace(/```[\s\S]*?```/g, "")
      .matchAll(/`([^`\n]+)`/g),
  ];
  const words = spans.flatMap(([, span = ""]) => span.match(/(?<![\w$])[a-z]+(?:[A-Z][a-z0-9]*)+\b/g) ?? []);
  expect(words.filter((word) => !identifiers.has(word) && !FOREIGN_SETTINGS.has(word))).toEqual([]);
});

/** A heading that a comment cites as its words in quotes, then `in` and the path. */
const CITED_HEADING = /"([A-Z][^"\n]*(?:\n \* [^"\n]*)?)" in ([\w./-]+\.md)/g;

test("every heading that a comment cites is in the document", () => {
  const wrong = sources.flatMap((file) =>
    [...read(file).matchAll(CITED_HEADING)].flatMap(([, raw = "", path = ""]) => {
      const heading = raw.replace(/\n \* /, " ");
      const document = candidates(file, path).find((one) => known.has(one));
      const found = document !== undefined && new RegExp(`^#+ ${heading}$`, "m").test(read(document));
      return found ? [] : [`${file}: "${heading}" in ${path}`];
    }),
  );
  expect(wrong).toEqual([]);
});

/** Ways to cite a document that is none of the repository's. */
const FOREIGN_CITATION =
  /\bwire tables?\b|\bspecification \d|\(reference: [A-Z0-9]|\b(?:spec|ops|wire|style|design)\.md\b/;

test("no comment cites a document outside the repository", () => {
  const self = basename(import.meta.filename);
  const wrong = [...sources, ...documents].flatMap((file) =>
    read(file)
      .split("\n")
      .flatMap((line, at) =>
        basename(file) !== self && FOREIGN_CITATION.test(line) ? [`${file}:${at + 1}: ${line.trim()}`] : [],
      ),
  );
  expect(wrong).toEqual([]);
});
