// Changes one place of the product at a time, and says which changes no test of `npm test` notices.
//   npm run mutate -- FILE... [--sample N] [--seed TEXT]   all places of these files, or N of them
//   npm run mutate -- --sample N [--seed TEXT]             N places of the product
//
// A place is an operator, a negation, a condition, a boolean or a number. A seed draws the same places again while their
// lines stay the same. Each mutant is written into its file, which is restored after it and on a signal. The tests that
// import the file run, unit tests first. A mutant is killed when one of them fails twice that passes without it, or when
// they do not end. The exit code is 1 if a mutant survives that the type check accepts.
import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as ast from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The tests of a file, nearest first: those of its folder, then all that import it. */
const STAGES = [
  (file) => ["run", `test/unit/${dirname(file)}/`, "--project=unit"],
  (file) => ["related", file, "--project=unit"],
  (file) => ["related", file, ...["golden", "contract", "integration", "process"].map((lane) => `--project=${lane}`)],
];
/** The time limit of a stage, in milliseconds: several times what all of its tests take on a busy machine. */
const MOST_MS = 1_800_000;

/** What replaces an operator or a boolean. */
const SWAPS = {
  ...{ "<": "<=", "<=": "<", ">": ">=", ">=": ">", "===": "!==", "!==": "===", "&&": "||", "||": "&&", "??": "&&" },
  ...{ "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=" },
  ...{ true: "false", false: "true" },
};

/** Returns the mutants of one node of the syntax tree, without those of its children: what replaces what. */
function mutantsOf(node, text) {
  const written = (part) => text.slice(part.getStart(), part.end);
  const change = (part, by) => [{ start: part.getStart(), end: part.end, was: written(part), by }];
  const swapped = (part) => (Object.hasOwn(SWAPS, written(part)) ? change(part, SWAPS[written(part)]) : []);
  // The other way to negate it is the mutant of the operator.
  const negated = (part) =>
    /^!|^[^&|?]* [!=]== [^&|?]*$/.test(written(part)) ? [] : change(part, `!(${written(part)})`);
  if (ast.isBinaryExpression(node)) {
    const isText = [node.left, node.right].some((side) => /^["`]/.test(written(side)));
    return isText ? [] : swapped(node.operatorToken);
  }
  if (ast.isPrefixUnaryExpression(node) && written(node).startsWith("!")) return change(node, written(node.operand));
  if (ast.isNumericLiteral(node)) return change(node, `(${written(node)} + 1)`);
  if (ast.isIfStatement(node) || ast.isWhileStatement(node)) return negated(node.expression);
  if (ast.isConditionalExpression(node)) return negated(node.condition);
  return node.kind === ast.SyntaxKind.TrueKeyword || node.kind === ast.SyntaxKind.FalseKeyword ? swapped(node) : [];
}

/** Returns the mutants of these files; without any, of the product. */
function mutantsIn(named) {
  const api = new API({ cwd: ROOT });
  const [{ program }] = api.updateSnapshot({ openProjects: [join(ROOT, "tsconfig.json")] }).getProjects();
  const all = program.getSourceFileNames().map((path) => relative(ROOT, path));
  const missing = named.filter((file) => !all.includes(file));
  if (missing.length > 0) throw new Error(`no sources: ${missing.join(", ")}`);
  const files = named.length > 0 ? named : all.filter((file) => /^(?:gateway|engine|deploy)\/.*\.ts$/.test(file));
  const mutants = files.flatMap((file) => {
    const tree = program.getSourceFile(join(ROOT, file));
    const found = [];
    const visit = (node) => {
      if (ast.isTypeNode(node) || ast.isImportDeclaration(node)) return;
      found.push(...mutantsOf(node, tree.text));
      node.forEachChild(visit);
    };
    visit(tree);
    return found.map((mutant) => ({ file, text: tree.text, ...mutant, ...placeOf(tree.text, mutant.start) }));
  });
  api.close();
  return mutants;
}

/** Returns where a place is: the number and the text of its line, and its column. */
function placeOf(text, start) {
  const from = text.lastIndexOf("\n", start - 1) + 1;
  const line = text.slice(from, text.indexOf("\n", start));
  return { number: text.slice(0, start).split("\n").length, line, column: start - from };
}

/** The first `most` mutants in an order that only the seed and the mutated lines determine. */
function drawn(mutants, most, seed) {
  const rank = ({ file, line, column, by }) => hash("sha1", JSON.stringify([seed, file, line, column, by]));
  const ranked = mutants.map((mutant) => ({ mutant, rank: rank(mutant) }));
  return ranked
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, most)
    .map(({ mutant }) => mutant);
}

let stop = () => {};

/** Runs a program. Resolves to its exit code and output; the code is undefined if it did not end. */
function run(args) {
  const options = {
    cwd: ROOT,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NO_COLOR: "1" },
  };
  const child = spawn("npx", ["--no-install", ...args], options);
  const kill = () => process.kill(-child.pid, "SIGKILL");
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const timer = setTimeout(kill, MOST_MS);
  stop = kill;
  return new Promise((resolve) => {
    child.once("close", (code) => {
      clearTimeout(timer);
      stop = () => {};
      resolve({ code: code ?? undefined, output });
    });
  });
}

const vitest = (command, file, ...more) =>
  run(["vitest", command, file, "--run", "--config", "test/vitest.config.ts", ...more]);

/** Runs the tests of a mutant. Resolves to how it ended. */
async function verdictOf({ file, text, start, end, by }) {
  const restore = () => writeFileSync(join(ROOT, file), text);
  process.on("exit", restore);
  writeFileSync(join(ROOT, file), text.slice(0, start) + by + text.slice(end));
  let ran = false;
  try {
    for (const tests of STAGES) {
      const { code, output } = await vitest(...tests(file), "--bail=1", "--passWithNoTests");
      ran ||= !output.includes("No test files found");
      if (code === 0) continue;
      if (code === undefined) return "killed: the tests do not end";
      const [, lane, killer, name] = /FAIL +\|?(\w+)\|? +(\S+\.test\.ts)(?: > )?(.*)/.exec(output) ?? [];
      if (!killer) return "killed: the tests end with an error";
      const again = await vitest("run", killer, `--project=${lane}`);
      restore();
      const without = await vitest("run", killer, `--project=${lane}`);
      return `${again.code !== 0 && without.code === 0 ? "killed" : "unclear: not each time"}: ${killer} ${name}`;
    }
    if ((await run(["tsc", "--noEmit"])).code !== 0) return "killed: by the type check only";
    return ran ? "SURVIVED" : "SURVIVED: no test imports it";
  } finally {
    restore();
    process.off("exit", restore);
  }
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.on(signal, () => {
    stop();
    process.exit(130);
  });

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: "string" }, seed: { type: "string", default: "1" } },
});
if (positionals.length === 0 && !values.sample) {
  process.stderr.write("usage: npm run mutate -- FILE...|--sample N [--seed TEXT]\n");
  process.exit(2);
}
const found = mutantsIn(positionals);
const sample = drawn(found, Number(values.sample ?? found.length), values.seed);
console.log(`${sample.length} of ${found.length} mutants, seed ${values.seed}`);
const ends = { killed: 0, unclear: 0, SURVIVED: 0 };
for (const mutant of sample) {
  const verdict = await verdictOf(mutant);
  ends[verdict.match(/^\w+/)[0]] += 1;
  console.log(`${mutant.file}:${mutant.number} ${mutant.was} -> ${mutant.by}\n  ${verdict}`);
}
console.log(`${ends.killed} killed, ${ends.unclear} unclear, ${ends.SURVIVED} survived`);
if (ends.SURVIVED > 0) process.exitCode = 1;
