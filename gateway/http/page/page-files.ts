import { readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";

export type PageFile = {
  readonly name: string;
  readonly type: string;
  readonly body: string;
};

/**
 * Headers of every file of a page: only scripts and styles of its own origin run, no requests go to other origins, no
 * other page can frame it or access its window, and the browser stores no copy.
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

/** The files that all pages share. */
const SHARED_FOLDER = "gateway/http/page";
const SHARED = ["base.css", "dom.js"];

/** Reads the files `names` in `folder`, below that of the package, and those of all pages: the build copies none. */
export function pageFiles(folder: string, names: readonly string[]): readonly PageFile[] {
  const read = (from: string) => (name: string) => ({
    name,
    type: TYPES[extname(name)] ?? "text/plain; charset=utf-8",
    body: readFileSync(join(projectFolder(), from, name), "utf8"),
  });
  return [...names.map(read(folder)), ...SHARED.map(read(SHARED_FOLDER))];
}
