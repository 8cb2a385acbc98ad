import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { generatedFiles } from "./pages.ts";

/*
 * `npm run docs`: writes the generated documents. `test/unit/deploy/docs/pages.test.ts` fails while one of them is
 * outdated.
 */

for (const { path, text } of generatedFiles()) writeFileSync(join(projectFolder(), path), text);
