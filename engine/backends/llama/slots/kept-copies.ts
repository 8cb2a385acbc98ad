/** Copies of a cache that cannot be cut, for repeated or edited turns; one takes tens of megabytes. */
export const KEPT_COPIES = 3;
