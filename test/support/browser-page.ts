import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/* A real browser, if one is installed, with the functions that page tests use. */

const CHROMIUM = "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The used part of the browser library's page type, so that types check without the library. */
export type Page = {
  goto(url: string): Promise<unknown>;
  on(event: "console" | "pageerror" | "request", listener: (what: Said) => void): void;
  evaluate<T>(expression: string): Promise<T>;
  fill(selector: string, text: string): Promise<void>;
  click(selector: string): Promise<void>;
  press(selector: string, key: string): Promise<void>;
  reload(): Promise<unknown>;
  url(): string;
  check(selector: string): Promise<void>;
  uncheck(selector: string): Promise<void>;
  selectOption(selector: string, value: string): Promise<unknown>;
  setViewportSize(size: { readonly width: number; readonly height: number }): Promise<void>;
  setInputFiles(selector: string, file: { name: string; mimeType: string; buffer: Buffer }): Promise<void>;
  waitForEvent(event: "download"): Promise<{ path(): Promise<string> }>;
  emulateMedia(options: { colorScheme: "light" | "dark" }): Promise<void>;
};
type Said = { type?(): string; text?(): string; url?(): string; readonly message?: string };
type Browser = { newPage(options?: object): Promise<Page>; close(): Promise<void> };
type Library = { readonly chromium: { launch(options: object): Promise<Browser> } };

async function browserLibrary(): Promise<Library | undefined> {
  // Unknown to the compiler, so that a missing library is no error.
  const name: string = "playwright-core";
  return import(name).catch(() => undefined);
}

const library = existsSync(CHROMIUM) ? await browserLibrary() : undefined;
const missing = existsSync(CHROMIUM) ? "playwright-core is not installed" : `there is no ${CHROMIUM}`;

export const HAS_BROWSER = library !== undefined;
/** Why tests are skipped, for their titles; empty if there is a browser. */
export const NO_BROWSER = library ? "" : ` (skipped: ${missing})`;

export type OpenPage = {
  readonly page: Page;
  readonly faults: string[];
  readonly fetched: readonly string[];
  /** Resolves once the expression is true in the page. The library's own wait violates the policy. */
  shown(expression: string): Promise<void>;
  text(selector: string): Promise<string>;
  close(): Promise<void>;
};

export async function openPage(): Promise<OpenPage> {
  if (!library) throw new Error(missing);
  const browser = await library.chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  const page = await browser.newPage();
  const faults: string[] = [];
  const fetched: string[] = [];
  page.on("pageerror", ({ message }) => faults.push(String(message)));
  page.on("console", (said) => {
    if (said.type?.() === "error") faults.push(String(said.text?.()));
  });
  page.on("request", (request) => fetched.push(String(request.url?.())));
  return {
    page,
    faults,
    fetched,
    async shown(expression) {
      for (const lastMs = Date.now() + 20_000; !(await page.evaluate<boolean>(expression)); ) {
        if (Date.now() > lastMs) throw new Error(`the page never showed it: ${expression}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    text: (selector) => page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)}).innerText`),
    close: () => browser.close(),
  };
}

/** Whether no element is wider than the window, so that a phone scrolls in one direction only. */
export const FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";

export const PHONE = { width: 375, height: 700 } as const;
export const DESKTOP = { width: 1280, height: 900 } as const;

type Look = { readonly width: number; readonly height: number; readonly colorScheme: "light" | "dark" };

/** A desktop and a phone, each light and dark. */
export const LOOKS: readonly Look[] = [DESKTOP, { width: 390, height: 844 }].flatMap((size) => [
  { ...size, colorScheme: "light" } as const,
  { ...size, colorScheme: "dark" } as const,
]);

/** Shows the page as `look` says, and resolves to the broken rules of accessibility, each with its elements. */
export async function violations(page: Page, look: Look): Promise<readonly string[]> {
  await page.setViewportSize(look);
  await page.emulateMedia(look);
  const axe = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
  return page.evaluate<string[]>(
    `${axe}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)].join(" ")))`,
  );
}

/** Presses Tab until the focus comes round; resolves to the seen elements that can be operated and were not reached. */
export async function unreached(page: Page): Promise<readonly string[]> {
  await page.evaluate(`document.activeElement.blur(); window.reached = new Set()`);
  const again = `reached.size === reached.add(document.activeElement).size`;
  await page.press("body", "Tab");
  while (!(await page.evaluate<boolean>(again))) await page.press(":focus, body", "Tab");
  const operated = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary")]`;
  const seen = `one.checkVisibility() && !one.disabled`;
  return page.evaluate<string[]>(
    `${operated}.filter((one) => ${seen} && !reached.has(one)).map((one) => one.outerHTML)`,
  );
}
