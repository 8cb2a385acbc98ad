import { existsSync } from "node:fs";
import { join } from "node:path";

/** The file name of jemalloc; Debian's package is libjemalloc2. */
const JEMALLOC = "libjemalloc.so.2";
/** The folders in which Linux distributions with glibc keep their libraries, by the name that Node has for the processor. */
const LIBRARY_FOLDERS: Readonly<Record<string, readonly string[]>> = {
  x64: ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"],
  arm64: ["/usr/lib/aarch64-linux-gnu", "/usr/lib64"],
};

/**
 * Returns what a service's process is started with in its environment, beside what is there already, so that memory that
 * it no longer uses goes back to the system. It has to be there when a process starts.
 *
 * Where the system has jemalloc, the process uses it instead of glibc's allocator: pages without anything in use go back
 * within seconds. glibc gives back only what lies at the end, and what parts of big bodies were held in leaves holes before
 * it. Where there is no jemalloc, glibc is told to map every piece of memory from 256 KiB on for itself and to give it back
 * at once: by itself the largest body raises that bound to 32 MiB for good, and each thread that translated one keeps up to
 * twice as much. `exists` tells whether a file is there.
 */
export function memoryEnv(exists: (path: string) => boolean = existsSync): Readonly<Record<string, string>> {
  const folders = process.platform === "linux" ? (LIBRARY_FOLDERS[process.arch] ?? []) : [];
  const jemalloc = folders.map((folder) => join(folder, JEMALLOC)).find(exists);
  return {
    MALLOC_MMAP_THRESHOLD_: "262144",
    ...(jemalloc && {
      LD_PRELOAD: jemalloc,
      // A thread of its own gives back what an idle process holds; by itself jemalloc waits ten seconds.
      MALLOC_CONF: "background_thread:true,dirty_decay_ms:3000",
    }),
  };
}
