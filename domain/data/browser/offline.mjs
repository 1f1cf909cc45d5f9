// A service worker: after the first load the page and the runtime open without a network. Models are not kept here.

const NAME = "assay-link-1";
const PARTS = ["./", "link.css", "link.mjs", "link-store.mjs", "page.mjs", "worker.mjs", "hardware.json"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(PARTS)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || !url.pathname.startsWith("/browser/")) return;
  const runtime = /\/browser\/files\/[0-9a-f]{64}\.(mjs|wasm)$/.test(url.pathname);
  if (url.pathname.includes("/files/") && !runtime) return;
  event.respondWith(runtime ? keptFirst(event.request) : freshFirst(event.request));
});

async function keptFirst(request) {
  const kept = await caches.match(request);
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) await (await caches.open(NAME)).put(request, answer.clone());
  return answer;
}

async function freshFirst(request) {
  try {
    const answer = await fetch(request);
    if (answer.ok) await (await caches.open(NAME)).put(request, answer.clone());
    return answer;
  } catch (error) {
    const kept = await caches.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
