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

const PIECE_BYTES = 4 * 1024 ** 2;

// Returns a file as a Blob and whether it was kept from before; what was changed is fetched again. It is kept piece by piece:
// a connection that breaks and a page that was closed go on where they were.
export async function fetchKept({ digest, size }, onProgress) {
  const name = digest.replace("sha256:", "");
  const pieces = [];
  for (let piece; (piece = await read(`${name}.${pieces.length}`)) && piece.size;) pieces.push(piece);
  const bytes = () => pieces.reduce((sum, piece) => sum + piece.size, 0);
  const cached = bytes() === size, resumed = pieces.length > 0;
  for (let before = -1; bytes() < size && bytes() > before;) {
    before = bytes();
    await fetchRest(name, pieces, before, (more) => onProgress((before + more) / size));
  }
  const blob = new Blob(pieces);
  if (blob.size < size) throw new Error("The server cannot be reached, or the model was cut on its way. Reload to go on.");
  const found = blob.size === size ? await digestOf(blob) : undefined;
  if (found === digest || found === null) return { blob, cached };
  for (let at = 0; at < pieces.length; at += 1) await remove(`${name}.${at}`);
  if (resumed) return fetchKept({ digest, size }, onProgress);
  throw new Error("The model was changed on its way.");
}

// Adds what comes to the pieces, until all is there or the connection breaks.
async function fetchRest(name, pieces, from, onProgress) {
  let next = [], pending = 0, bytes = 0;
  const keep = async () => {
    if (!pending) return;
    const piece = new Blob(next);
    await write(`${name}.${pieces.length}`, piece);
    pieces.push(piece);
    [next, pending] = [[], 0];
  };
  try {
    const answer = await fetch(`files/${name}`, from ? { headers: { range: `bytes=${from}-` }, cache: "no-store" } : {});
    if (from && answer.status === 200) pieces.length = 0;
    else if (!answer.ok) return;
    const reader = answer.body.getReader();
    for (let part; (part = await reader.read()) && !part.done;) {
      next.push(part.value);
      pending += part.value.length;
      bytes += part.value.length;
      if (pending >= PIECE_BYTES) await keep();
      onProgress(bytes);
    }
  } catch { /* What came before the connection broke is kept. */ }
  await keep();
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
