/**
 * A signal that follows others for the time of one piece of work, and lets go of them at `release`. (`AbortSignal.any` keeps
 * something of every work in a signal that lives as long as the process.) The reason is that of the first that aborts.
 */
export function linkAbort(...sources: readonly AbortSignal[]): {
  readonly signal: AbortSignal;
  readonly abort: (reason: unknown) => void;
  readonly release: () => void;
} {
  const linked = new AbortController();
  const follows = sources.map((source) => {
    const follow = () => linked.abort(source.reason);
    if (source.aborted) follow();
    else source.addEventListener("abort", follow, { once: true });
    return () => source.removeEventListener("abort", follow);
  });
  return {
    signal: linked.signal,
    abort: (reason) => linked.abort(reason),
    release: () => {
      for (const unfollow of follows) unfollow();
    },
  };
}
