import { readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";

/** A file of a page, as it is sent. */
export type PageFile = {
  /** The name of the file in the folder of the page. */
  readonly name: string;
  /** The content type of the file. */
  readonly type: string;
  /** The text of the file. */
  readonly body: string;
};

/**
 * The headers of every file of a page: only scripts and styles of its own origin run, nothing is sent elsewhere, no other
 * page frames it or has a hand on its window, and nothing is kept.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": [
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
};

/**
 * Reads the files of a page, called `names`, in `folder`, a path below that of the package. The build copies none, so they
 * are read where they were written.
 */
export function pageFiles(folder: string, names: readonly string[]): readonly PageFile[] {
  return names.map((name) => ({
    name,
    type: TYPES[extname(name)] ?? "text/plain; charset=utf-8",
    body: readFileSync(join(projectFolder(), folder, name), "utf8"),
  }));
}
