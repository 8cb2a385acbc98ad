import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

test.each([
  ["auto", /^\{"level":40,"time":"[^"]+","a":1,"msg":"hello"\}\n$/],
  ["json", /^\{"level":40,/],
  ["text", /^\[\d\d:\d\d:\d\d\] WARN: hello \{"a":1\}\n$/],
])("the log of a process without a terminal in the format %s", (format, expected) => {
  const library = pathToFileURL(join(import.meta.dirname, "../../dist/deploy/runtime/log/process-log.js"));
  const program = `import { processLog } from "${library}";
    processLog({ level: "info", format: "${format}", base: null }).warn({ a: 1 }, "hello");`;
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
  expect(stderr).toMatch(expected);
});
