export type Latch = { readonly passed: Promise<void>; readonly open: () => void };

export function latch(): Latch {
  let open: () => void = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
