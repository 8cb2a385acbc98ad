import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../../../../deploy/runtime/files/project-folder.ts";

const STYLE = read("page.css");
const SCRIPT = read("page.js");

/**
 * The admin page as one document: style and script stand in it, and the only addresses it fetches are `/live` and
 * `/workers` of its own origin.
 */
export const PAGE = read("page.html")
  .replace('<link rel="stylesheet" href="page.css">', () => `<style>${STYLE}</style>`)
  .replace('<script type="module" src="page.js"></script>', () => `<script type="module">${SCRIPT}</script>`);

/**
 * The Content-Security-Policy of the admin page: only its own style and script run, and nothing is sent to another
 * origin.
 */
export const PAGE_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(STYLE)}`,
  `script-src ${hashOf(SCRIPT)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Reads a file of the page. The build copies none, so they are read where they were written. */
function read(name: string): string {
  return readFileSync(join(projectFolder(), "gateway/http/admin/page", name), "utf8");
}

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}
