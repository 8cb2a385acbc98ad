import { existsSync } from "node:fs";

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
