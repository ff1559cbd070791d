// Prints what @huggingface/hub's parser finds in a safetensors file, or in a
// folder with an index: a line for each tensor, by name.
//
// usage: node safetensors_peer.mjs MODULES PATH [sharded]
import { createRequire } from "node:module";
import { existsSync, openAsBlob } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, path, sharded] = process.argv.slice(2);
const require = createRequire(pathToFileURL(modules + "/"));
const { parseSafetensorsMetadata } = require("@huggingface/hub");

// The parser reads from a server; this answers with the bytes of local files.
async function fetchLocal(url, options) {
  const file = path + "/" + String(url).split("/").pop().split("?")[0];
  if (!existsSync(file)) {
    return new Response("", { status: 404 });
  }
  const blob = await openAsBlob(file);
  const range = /bytes=(\d+)-(\d+)/.exec(new Headers(options?.headers).get("range") ?? "");
  const headers = { etag: '"local"', "content-type": "application/octet-stream" };
  if (!range) {
    return new Response(await blob.arrayBuffer(), { headers: { ...headers, "content-length": String(blob.size) } });
  }
  const [begin, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, blob.size)];
  headers["content-range"] = `bytes ${begin}-${end - 1}/${blob.size}`;
  return new Response(await blob.slice(begin, end).arrayBuffer(), { status: 206, headers });
}

const found = await parseSafetensorsMetadata({
  repo: "local/model", hubUrl: "http://local", fetch: fetchLocal, computeParametersCount: true });
const lines = [];
const add = (file, header) => {
  for (const [name, tensor] of Object.entries(header)) {
    if (name !== "__metadata__") {
      lines.push(`${name} ${tensor.dtype} [${tensor.shape}] ${file}`);
    }
  }
};
if (sharded) {
  for (const [file, header] of Object.entries(found.headers)) {
    add(file, header);
  }
} else {
  add("model.safetensors", found.header);
}
console.log(lines.sort().join("\n"));
