#!/usr/bin/env node
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root, unfitNode } from "./node-door.mjs";

/* All programs by one name, in an installed package. Each has its own `--help`. */

const PROGRAMS = {
  start: ["dist/deploy/local/main.js", "the whole service on this machine, with one model"],
  gateway: ["dist/gateway/main.js", "a gateway"],
  engine: ["dist/engine/main.js", "an engine node"],
  launch: ["dist/deploy/local/launch/main.js", "a coding agent, against a running service"],
  keys: ["dist/gateway/keys/cli/main.js", "API keys and their audit log"],
};

const usage = `usage: svc PROGRAM [options], svc PROGRAM --help

${Object.entries(PROGRAMS)
  .map(([name, [, about]]) => `  ${name.padEnd(10)}${about}`)
  .join("\n")}
  completion  the completion of these words for bash and zsh: source <(svc completion)
`;

// The reader may end first, as `head` does.
process.stdout.on("error", () => {});

const [name, ...rest] = process.argv.slice(2);
const unfit = unfitNode();
if (unfit !== undefined) refuse(`${unfit}\n`);
else if (name === "--version")
  console.log(`svc ${JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version}`);
else if (name === "completion") process.stdout.write(completion());
else if (name === "--help" || name === "-h") process.stdout.write(usage);
else if (name === undefined || !Object.hasOwn(PROGRAMS, name)) refuse(usage);
else {
  const file = join(root, PROGRAMS[name][0]);
  process.argv.splice(1, process.argv.length, file, ...rest);
  await import(pathToFileURL(file).href);
}

/** Returns a script for shells, with the commands and flags that the help of each program has. */
function completion() {
  const cases = Object.entries(PROGRAMS).map(([program, [file]]) => {
    const { stdout } = spawnSync(process.execPath, [join(root, file), "--help"], { encoding: "utf8" });
    const words = stdout.slice(stdout.indexOf("Options:")).matchAll(/^ {2}(?:-\w, )?(--[a-z-]+|[a-z][a-z-]+)\b/gm);
    return `    ${program}) words="${[...new Set([...words].map(([, word]) => word))].join(" ")}" ;;`;
  });
  return `type compdef >/dev/null 2>&1 && autoload -U bashcompinit && bashcompinit
_svc() {
  local words="${Object.keys(PROGRAMS).join(" ")} completion"
  if [ "$COMP_CWORD" -gt 1 ]; then case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    *) words= ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _svc svc
`;
}

function refuse(text) {
  process.stderr.write(text);
  process.exitCode = 2;
}
