/** A promise, and the function that settles it. */
export type Gate = { readonly passed: Promise<void>; readonly open: () => void };

/** Makes a gate that is closed until someone opens it. */
export function gate(): Gate {
  let open: () => void = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
