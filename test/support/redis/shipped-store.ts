import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

const FOLDER = join(import.meta.dirname, "../../../deploy/kubernetes/gateway");
const ACL_FILE = "--aclfile";

export const SHIPPED_USER = "gateway";

export function shippedUsers(password: string): string {
  return readFileSync(join(FOLDER, "users.acl"), "utf8").replace("PASSWORD", password);
}

/** Returns the shipped arguments of the server, which reads its users from `aclFile`. */
export function shippedArgs(aclFile: string): readonly string[] {
  const [set] = parseAllDocuments(readFileSync(join(FOLDER, "state.yaml"), "utf8"));
  const [, ...args]: readonly string[] = set?.toJS().spec.template.spec.containers[0].args ?? [];
  return args.map((arg, at) => (args[at - 1] === ACL_FILE ? aclFile : arg));
}
