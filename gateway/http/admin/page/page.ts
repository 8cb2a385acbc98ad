import { createHash } from "node:crypto";
import { PAGE_SCRIPT } from "./page-script.ts";
import { PAGE_STYLE } from "./page-style.ts";

/** The admin page: one file, nothing fetched but `/live` and `/workers`, both from its own origin. */
export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>gateway</title>
<link rel="icon" href="data:,">
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>gateway</h1>
<span id="state" class="badge">…</span>
<span id="worker" class="dim"></span>
<span id="uptime" class="dim"></span>
<span id="lost" class="badge bad" role="status" hidden>no answer; showing old values</span>
<nav class="dim"><a href="/clusters">clusters</a> <a href="/stats">stats</a> <a href="/config_dump">config</a> <a href="/help">help</a></nav>
</header>
<section id="workers" hidden><div class="scroll"><table></table></div></section>
<dl id="tiles"></dl>
<form id="filter">
<label>Show <input id="words" type="search" placeholder="address, zone, state" autocomplete="off" spellcheck="false"></label>
<label><input id="troubled" type="checkbox"> only endpoints with trouble</label>
</form>
<main id="clusters"></main>
<noscript>This page needs JavaScript; <a href="/clusters">/clusters</a> and <a href="/stats">/stats</a> do not.</noscript>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;

/** Only this style and this script run, and nothing is sent anywhere else. */
export const PAGE_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(PAGE_STYLE)}`,
  `script-src ${hashOf(PAGE_SCRIPT)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}
