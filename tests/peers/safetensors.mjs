// Prints what @huggingface/hub's parser finds in a folder as Hugging Face has
// it: a line for each tensor, by name.
//
// usage: node safetensors.mjs FOLDER
import { parseSafetensorsMetadata } from "@huggingface/hub";
import { existsSync, openAsBlob } from "node:fs";

const folder = process.argv[2];

// The parser reads from a server; this answers with the bytes of local files.
async function fetchLocal(url, options) {
  const file = folder + "/" + String(url).split("/").pop().split("?")[0];
  if (!existsSync(file)) {
    return new Response("", { status: 404 });
  }
  const blob = await openAsBlob(file);
  const headers = { etag: '"local"', "content-type": "application/octet-stream" };
  const range = /bytes=(\d+)-(\d+)/.exec(new Headers(options?.headers).get("range") ?? "");
  if (!range) {
    headers["content-length"] = String(blob.size);
    return new Response(await blob.arrayBuffer(), { headers });
  }
  const [begin, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, blob.size)];
  headers["content-range"] = `bytes ${begin}-${end - 1}/${blob.size}`;
  return new Response(await blob.slice(begin, end).arrayBuffer(), { status: 206, headers });
}

const found = await parseSafetensorsMetadata({
  repo: "local/model", hubUrl: "http://local", fetch: fetchLocal, computeParametersCount: true });
const headers = found.sharded ? Object.entries(found.headers) : [["model.safetensors", found.header]];
const lines = [];
for (const [file, header] of headers) {
  for (const [name, tensor] of Object.entries(header)) {
    if (name !== "__metadata__") {
      lines.push(`${name} ${tensor.dtype} [${tensor.shape}] ${file}`);
    }
  }
}
console.log(lines.sort().join("\n"));
console.log(`parameters ${JSON.stringify(found.parameterCount)}`);
