// What the page keeps: models by digest in the origin private file system, results that are not sent yet, its own name.
// Where a browser has no such place, all of it stays in memory for as long as the page is open.

const memory = new Map();

async function folder() {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle("assay", { create: true });
  } catch { return null; }
}

export async function read(name) {
  const place = await folder();
  if (place) {
    try { return await (await place.getFileHandle(name)).getFile(); } catch { /* It is not there. */ }
  }
  return memory.get(name) ?? null;
}

export async function write(name, content) {
  const blob = content instanceof Blob ? content : new Blob([content]);
  const place = await folder();
  if (place) {
    try {
      const writable = await (await place.getFileHandle(name, { create: true })).createWritable();
      await writable.write(blob);
      await writable.close();
      return;
    } catch { /* A browser may have the place and no room, or no way to write from a page. */ }
  }
  memory.set(name, blob);
}

export async function remove(name) {
  memory.delete(name);
  const place = await folder();
  try { await place?.removeEntry(name); } catch { /* It was not there. */ }
}

async function digestOf(blob) {
  if (!crypto.subtle) return null;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer()));
  return `sha256:${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// Returns a file as a Blob and whether it was kept from before; what was cut or changed is fetched again.
export async function fetchKept({ digest, size }, onProgress) {
  const name = digest.replace("sha256:", "");
  const kept = await read(name);
  if (kept && kept.size === size && [null, digest].includes(await digestOf(kept))) return { blob: kept, cached: true };
  const answer = await fetch(`files/${name}`);
  if (!answer.ok) throw new Error(`the model was answered with HTTP ${answer.status}`);
  const pieces = [];
  let bytes = 0;
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    bytes += value.length;
    onProgress(bytes / size);
  }
  const blob = new Blob(pieces);
  const found = await digestOf(blob);
  if (blob.size !== size || (found !== null && found !== digest)) throw new Error("the model was cut or changed on its way");
  await write(name, blob);
  return { blob, cached: false };
}

export function settings(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    if (value !== undefined) memory.set(key, value);
    return memory.get(key) ?? null;
  }
}
