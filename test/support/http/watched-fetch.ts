import { readBody } from "./read-until.ts";

/** A step of a stream: a condition on its text so far, and an action. */
export type Watch = { readonly found: (text: string) => boolean; readonly act: () => void };

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
