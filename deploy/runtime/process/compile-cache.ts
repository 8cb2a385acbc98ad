import module from "node:module";

/**
 * Returns what a service's process is started with in its environment, beside what is there already, so that Node keeps
 * in `folder` what V8 has compiled of the program's files, and takes it from there in the next process. Nobody else may
 * write to the folder: what lies in it is run. Node makes it where it is missing, and uses only what the same version
 * of it made for the same text of a file, under the same user. A folder that cannot be written to is read alone; one
 * that cannot be made changes nothing. Node has this from version 22.1 on, and a relative path is one of the working
 * directory. See "Module compile cache" in the documentation of Node's `node:module`.
 */
export function compileCacheEnv(folder: string): Readonly<Record<string, string>> {
  return { NODE_COMPILE_CACHE: folder };
}

/**
 * Writes down now what V8 has compiled of this process' files, for processes that start later. By itself Node does so
 * only when a process ends in order, and a file that is written once stays as it is until its text changes: so it is to
 * be called when everything has run that a later process shall not have to compile. It holds this thread, for 80 to 160
 * ms where a gateway has warmed up, so that nobody may be served yet. It does nothing where the process was not started with such a folder, in Node before 22.10, and for files whose
 * compiled code came from there. It never throws.
 */
export function keepCompiled(): void {
  // Absent in Node 20.
  const { flushCompileCache } = module as { readonly flushCompileCache?: () => void };
  flushCompileCache?.();
}
