/** The environment that `deploy/images/Containerfile` gives its processes. Without jemalloc the loader warns and goes on. */
export const IMAGE_ENV = {
  LD_PRELOAD: "libjemalloc.so.2",
  MALLOC_CONF: "background_thread:true,dirty_decay_ms:3000",
};
