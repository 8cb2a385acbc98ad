import { readBody } from "./read-until.ts";

/** A step of a stream: what its text so far has to be, and what to do then. */
export type Watch = { readonly found: (text: string) => boolean; readonly act: () => void };

/** Makes a `fetch` with someone who reads every body along and acts on what comes, in the order of `watches`. */
export function watchedFetch(watches: readonly Watch[]): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const [forCaller, forWatcher] = response.body?.tee() ?? [];
    if (!forCaller || !forWatcher) return response;
    const copy = { status: response.status, headers: response.headers };
    void follow(new Response(forWatcher, copy), watches);
    return new Response(forCaller, copy);
  };
}

async function follow(response: Response, watches: readonly Watch[]): Promise<void> {
  const body = readBody(response);
  for (const { found, act } of watches) {
    await body.until(found);
    act();
  }
  await body.toEnd();
}
