// Compiles the library when it is installed from its sources or packed. npm does not install what a folder needs to be
// built when it installs that folder elsewhere: then it is fetched here, by the lock file.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const compiler = new URL("node_modules/typescript/bin/tsc", import.meta.url);

function run(program, args, shell) {
  // npm runs this script with its own settings in the environment, such as where the outer package is and what to leave out.
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(config_(global|prefix|omit|include|production|local_prefix|save|dry_run|ignore_scripts|package_lock.*)|package_|lifecycle_)/i.test(name)));
  execFileSync(program, args, { cwd: here, stdio: ["ignore", 2, 2], shell, env: { ...clean, NODE_ENV: "development" } });
}

try {
  if (!existsSync(compiler)) run("npm", ["ci", "--ignore-scripts", "--prefer-offline", "--silent"], process.platform === "win32");
  run(process.execPath, [fileURLToPath(compiler)], false);
} catch (error) {
  console.error(`lingua-web could not be compiled: ${error.message}. Run "npm ci" in ${here}, then install again.`);
  process.exit(1);
}
