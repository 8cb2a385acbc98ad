// Says what a file of the product serves, by the imports of the sources.
//   npm run why -- FILE   the tests of `npm test` that reach it, nearest first, with the rows of gateway/docs/threats.md in
//                         their titles, the tokens of gateway/outcome.ts in the file, and its functions on the recorded
//                         ways of gateway/docs/life.md
//   npm run why           the files with code that no test of `npm test` reaches
//
// A test reaches the files that it imports, and those that these import or start as a thread. What types alone import,
// and what a test starts as a program, is not followed: only a recorded run would know which lines a test passes.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const QUICK = /^test\/(?:unit|golden|contract|integration|process)\/.*\.test\.ts$/;
const PRODUCT = /^(?:gateway|engine|deploy)\//;
/** The beginning of a statement that is no import and no type. */
const CODE = /^(?!(?:import|(?:export )?(?:type|interface))\b|\/[*/])\w/m;

/** An import or a re-export of values, an import at run time, and the program of a thread without its ending. */
const IMPORTED = /^(?:import|export)\s(?!type\s)[^;]*?"(\.[^"]+)";|\bimport\("(\.[^"]+)"\)|new URL\(`(\.[^`$]+)\$\{/gm;

const files = ["gateway", "engine", "deploy", "test"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => join(folder, file)),
);
const texts = new Map(files.map((file) => [file, readFileSync(join(ROOT, file), "utf8")]));

/** For each file those that import it. */
const importers = new Map(files.map((file) => [file, []]));
for (const [file, text] of texts)
  for (const [, value, later, program] of text.matchAll(IMPORTED))
    importers.get(normalize(join(dirname(file), value ?? later ?? `${program}.ts`)))?.push(file);

/** Returns the tests that reach a file, nearest first, each with the number of imports on its shortest way. */
function testsOf(file) {
  const distances = new Map([[file, 0]]);
  for (const [reached, distance] of distances)
    for (const importer of importers.get(reached) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  return [...distances].filter(([test]) => QUICK.test(test));
}

/** Returns the rows of threats that the titles of a test begin with. */
function threatsOf(test) {
  const titles = texts.get(test).matchAll(/["'`]((?:[A-Z]\d{1,2}(?:, | and | to )?)+)(?=[ "'`])/g);
  return [...new Set([...titles].flatMap(([, rows]) => rows.match(/[A-Z]\d{1,2}/g)))];
}

const product = files.filter((file) => PRODUCT.test(file));
const [file] = process.argv.slice(2);
if (file === undefined) {
  const withCode = product.filter((each) => CODE.test(texts.get(each)));
  const unreached = withCode.filter((each) => testsOf(each).length === 0);
  console.log(`${unreached.length} of ${withCode.length} files are reached by no test of npm test:`);
  for (const each of unreached) console.log(`  ${each}`);
} else if (product.includes(file)) {
  const tests = testsOf(file);
  console.log(`${tests.length} test files of npm test reach ${file}, over so many imports:`);
  for (const [test, distance] of tests) console.log(`  ${distance}  ${[test, ...threatsOf(test)].join(" ")}`);
  const tokens = [...texts.get("gateway/outcome.ts").matchAll(/^ {2}(\w+): \{/gm)].map(([, token]) => token);
  const made = tokens.filter((token) => texts.get(file).includes(`"${token}"`));
  if (made.length > 0) console.log(`It names these outcomes: ${made.join(", ")}`);
  for (const way of readFileSync(join(ROOT, "gateway/docs/life.md"), "utf8").split("\n## ")) {
    const [, functions] = way.split(`\n| \`${file.replace(/^gateway\//, "")}\` | `);
    if (functions) console.log(`${way.split("\n", 1)[0]} calls: ${functions.split(" |", 1)[0]}`);
  }
} else {
  process.stderr.write(`no source of the product: ${file}\n`);
  process.exitCode = 2;
}
