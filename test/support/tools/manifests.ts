import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");

/** The modules of Go that hold definitions of the custom resources, and the definitions in them. */
const DEFINITIONS = [
  "sigs.k8s.io/lws@v0.7.0/config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
  "github.com/kedacore/keda/v2@v2.21.0/config/crd/bases/keda.sh_scaledobjects.yaml",
  ...["podmonitors", "prometheusrules"].map(
    (name) =>
      `github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/monitoring.coreos.com_${name}.yaml`,
  ),
];

/** A resource of Kubernetes, of which only what all have is known. */
export type Resource = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
};

const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;

/** The program that renders kustomizations, with its arguments; undefined where there is none. */
const KUSTOMIZE = has("kubectl", "kustomize", "--help")
  ? ["kubectl", "kustomize"]
  : has("kustomize", "version")
    ? ["kustomize", "build"]
    : undefined;

/** Why tests that render manifests are skipped; the empty text where they are not. */
export const noKustomize = KUSTOMIZE ? "" : "there is no kubectl or kustomize";

const definitions = has("go", "version")
  ? DEFINITIONS.map((file) => join(execFileSync("go", ["env", "GOMODCACHE"], { encoding: "utf8" }).trim(), file))
  : [];

/** The Python of the environment that `.ci/run` makes. */
const PYTHON = join(ROOT, ".tools/bin/python");

/** Why tests that hold manifests against schemas are skipped; the empty text where they are not. */
export const noSchemas = has(PYTHON, "-c", "import kubernetes_validate")
  ? definitions.length > 0 && definitions.every((file) => existsSync(file))
    ? ""
    : "the definitions of custom resources are not there: .ci/run fetches them"
  : "no schemas: `python3 -m venv .tools && .tools/bin/pip install kubernetes-validate==1.37.0` brings them";

/** Renders a kustomization in deploy/kubernetes to YAML. Throws with what the program said where it fails. */
export function rendered(folder: string): string {
  const [program = "", ...args] = KUSTOMIZE ?? [];
  return execFileSync(program, [...args, join(ROOT, "deploy/kubernetes", folder)], { encoding: "utf8" });
}

/** Returns the resources of a rendered kustomization. */
export function resourcesOf(text: string): readonly Resource[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Resource);
}

/** Returns what Kubernetes and the makers of custom resources find wrong with manifests; empty where nothing is. */
export function faultsOf(text: string): string {
  const script = join(ROOT, "test/deploy/validate-manifests.py");
  const { status, stdout, stderr } = spawnSync(PYTHON, [script, ...definitions], { input: text, encoding: "utf8" });
  return status === 0 ? "" : `${stdout}${stderr}`;
}
