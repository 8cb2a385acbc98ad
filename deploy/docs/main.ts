import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { generatedFiles } from "./pages.ts";

/*
 * `npm run docs`: writes the documents that are made from code. `test/unit/deploy/docs/pages.test.ts` fails while one
 * of them is not what the code gives.
 */

for (const { path, text } of generatedFiles()) writeFileSync(join(projectFolder(), path), text);
