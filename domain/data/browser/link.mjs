// The page of a link: says what it would send, measures each model of the link, and sends a result once it may.
//
// The address ends in #TOKEN, or #TOKEN&consent=yes where the person who opens it has agreed beforehand. What was opened
// and what is measured is kept, so that a reload goes on, and a result that could not be sent is sent later, once.

import { startWorker } from "./page.mjs";
import { fetchKept, read, remove, settings, write } from "./link-store.mjs";

const $ = (id) => document.getElementById(id);
const [token, ...rest] = location.hash.slice(1).split("&");
const consented = rest.includes("consent=yes");
const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
const THREADS_MOST = 8;
const STEP_S = 120;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Refused extends Error {}

// A model that does not run on a backend: what the worker said of it, in the words of the browser.
class Failed extends Error {
  constructor({ stage, name, message, operator }) {
    super(message);
    Object.assign(this, { stage, error: name || "Error", operator: operator ?? null });
  }
}

async function post(path, body) {
  for (let waits = 0; ; waits += 1) {
    let answer;
    try {
      answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    } catch { throw new Error("The server cannot be reached."); }
    if ((answer.status === 429 || answer.status === 503) && waits < 5) {
      await sleep(1000 * (Number(answer.headers.get("retry-after")) || 1));
      continue;
    }
    const document = await answer.json().catch(() => ({}));
    if (answer.ok) return document;
    throw new Refused([document.detail ?? `The server answered ${answer.status}.`, document.remedy].filter(Boolean).join(" "));
  }
}

function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function deviceSecret() {
  return settings("assay-device") ?? settings("assay-device", randomName());
}

const claimName = `assay-claim-${token.slice(0, 12)}`;
const begunName = `assay-begun-${token.slice(0, 12)}`;
const RESUMED_MOST = 2;
let resumed = false;

// Remembers that this page is at work, and on what its person says that it runs: a reload goes on with it. Not for ever,
// because measuring may be what ends the page.
function begin(how) {
  if (how === null) return settings(begunName, null);
  const times = JSON.parse(settings(begunName) ?? '{"times": 0}').times;
  return settings(begunName, JSON.stringify({ times: times + 1, stated: $("stated").value }));
}

async function claim() {
  const kept = settings(claimName);
  try {
    const fresh = await post("/v1/links/claims", { token, device: deviceSecret() });
    settings(claimName, JSON.stringify(fresh));
    return fresh;
  } catch (error) {
    // A link that is over, or a server that is away, does not stop a device that has opened it.
    if (kept) return JSON.parse(kept);
    throw error;
  }
}

const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`);
const time = (ms) => (ms < 1 ? ms.toFixed(3) : ms < 100 ? ms.toFixed(2) : ms.toFixed(0)) + " ms";
const file = ({ digest }, suffix) => new URL(`files/${digest.replace("sha256:", "")}${suffix}`, location.href).href;

function item(list, text) {
  const entry = document.createElement("li");
  entry.textContent = text;
  list.append(entry);
}

function warn(text) {
  $("warning").textContent = text;
  $("warning").hidden = false;
}

function show(id) {
  for (const name of ["about", "work", "outcome"]) $(name).hidden = name !== id;
  $("lead").hidden = id !== "about";
}

function progress(doing, share, detail = "") {
  $("doing").textContent = doing;
  if (share === null) $("bar").removeAttribute("value"); else $("bar").value = share;
  $("detail").textContent = detail;
}

function watchVisibility() {
  const seen = { hidden: document.visibilityState === "hidden" ? 1 : 0 };
  const look = () => { if (document.visibilityState === "hidden") seen.hidden += 1; };
  document.addEventListener("visibilitychange", look);
  seen.end = () => document.removeEventListener("visibilitychange", look);
  return seen;
}

// Returns what a worker said while it did some steps; throws what it failed with, or that it took too long.
async function did(worker, said, task) {
  said.length = 0;
  let timer;
  const late = new Promise((_, reject) => {
    const stage = () => said.findLast(({ kind, begins }) => kind === "phase" && begins)?.stage ?? "load";
    timer = setTimeout(() => reject(new Failed({ stage: stage(), name: "TimeoutError", message: `no answer within ${STEP_S} s` })), STEP_S * 1000);
  });
  const last = await Promise.race([worker.run(task), late]).finally(() => clearTimeout(timer));
  if (last.kind === "failed") throw new Failed(last);
  return said.slice();
}

const of = (messages, kind) => messages.filter((message) => message.kind === kind);
const phase = (messages, stage) => of(messages, "phase").findLast((message) => message.stage === stage && message.ms !== undefined)?.ms ?? null;

// What a page says of itself, beside every result and every failure.
function factsOf(facts, backend, asked) {
  const { vendor = "", architecture = "", description = "" } = facts.adapter ?? {};
  return {
    user_agent: (facts.user_agent ?? navigator.userAgent).slice(0, 500),
    brands: (facts.user_agent_data?.fullVersionList ?? []).map(({ brand, version }) => `${brand} ${version}`.slice(0, 500)).slice(0, 10),
    mobile: facts.user_agent_data?.mobile ?? null,
    isolated: facts.isolated ?? false, threads_asked: asked, threads: 1,
    hardware_concurrency: facts.hardware_concurrency ?? null, clock_step_ms: facts.clock_step_ms ?? null,
    adapter: backend === "webgpu" && facts.adapter ? `${vendor} ${architecture} ${description}`.trim().slice(0, 500) : null,
    fallback_adapter: backend === "webgpu" ? (facts.adapter?.isFallbackAdapter ?? null) : null,
  };
}

async function measureOn(backend, at, offer, inputs, model) {
  const said = [];
  let facts = {}, asked = 1;
  const worker = startWorker((message) => {
    said.push(message);
    if (message.kind === "progress" && message.share !== undefined) progress(`Measuring ${offer.titles[at]} on ${backend}`, message.share, `${message.calls} calls`);
  });
  const visibility = watchVisibility();
  const url = URL.createObjectURL(model.blob);
  try {
    [facts] = of(await did(worker, said, { steps: ["environment"] }), "environment");
    asked = backend === "wasm" ? Math.max(1, Math.min(THREADS_MOST, facts.hardware_concurrency ?? 1)) : 1;
    const threads = facts.isolated && facts.shared_memory ? asked : 1;
    const named = (part) => offer.runtime.find(({ name }) => name === `${backend}/${part}`);
    const runtime = { module: file(named("module"), ".mjs"), mjs: file(named("mjs"), ".mjs"), wasm: file(named("wasm"), ".wasm"), version: offer.runtime_version };
    const task = { backend, threads, runtime, model: { url, bytes: model.blob.size, digest: offer.models[at].digest }, progress_ms: 200, device_type: "cpu" };
    progress(`Loading ${offer.titles[at]} on ${backend}`, null);
    const opening = await did(worker, said, { ...task, steps: ["load", "compile", "feed"], inputs: inputs[0] });
    const outputs = [];
    let first = null;
    for (let number = 0; number < inputs.length; number += 1) {
      progress(`Checking the outputs of ${offer.titles[at]}`, number / inputs.length);
      const [answer] = of(await did(worker, said, { steps: ["feed", "call"], inputs: inputs[number] }), "outputs");
      first ??= answer.ms;
      outputs.push(answer.outputs.map(({ name, dims, data }) => ({ name: name.replace("result/", ""), type: "float32", dims, data })));
    }
    progress(`Warming up ${offer.titles[at]} on ${backend}`, null, "until the times are steady");
    const method = { warm_up_ms: offer.warm_up_ms, least_warm_up_ms: 1500, budget_ms: offer.measure_ms };
    const [series] = of(await did(worker, said, { steps: ["warm_up", "measure"], inputs: inputs[0], method }), "samples");
    const loops = series.loop_ms ?? [];
    return {
      backend, samples: series.ms, warm_up: series.warm_up, outputs,
      load_ms: phase(opening, "load"), compile_ms: phase(opening, "compile"), first_run_ms: first,
      facts: {
        ...factsOf(facts, backend, asked),
        threads: of(opening, "phase").findLast(({ threads: had }) => had)?.threads ?? threads,
        hidden: visibility.hidden, loop_before_ms: loops[0] || null, loop_after_ms: loops[1] || null,
        steady: series.steady ?? null, cached: model.cached, reloaded: resumed,
      },
    };
  } catch (error) {
    if (error instanceof Failed) error.facts = { ...factsOf(facts, backend, asked), hidden: visibility.hidden, reloaded: resumed };
    throw error;
  } finally {
    visibility.end();
    worker.end();
    URL.revokeObjectURL(url);
  }
}

// The inputs that were given first stay those of this device; they are kept for a page that opens without a network.
async function task(offer, model) {
  const name = `task-${offer.device}-${model.slice(7, 23)}`;
  try {
    const given = await post("/v1/links/tasks", { key: offer.key, model });
    await write(name, JSON.stringify(given));
    return given;
  } catch (error) {
    const kept = error instanceof Refused ? null : await read(name);
    if (!kept) throw error;
    return JSON.parse(await kept.text());
  }
}

const keptName = (offer, at) => `result-${offer.device}-${offer.models[at].digest.slice(7, 23)}`;

// What was measured before a reload and is not sent yet: {result, failures, agreed}, or null.
async function unsent(offer, at) {
  const kept = await read(keptName(offer, at));
  if (!kept) return null;
  const { result, failures, agreed } = JSON.parse(await kept.text());
  return { at, agreed, result: result && { ...result, key: offer.key }, failures: failures.map((failure) => ({ ...failure, key: offer.key })) };
}

// Tries the backends in their order until one measures the model; those on which it did not run are told as well.
async function measure(at, offer) {
  const kept = await unsent(offer, at);
  if (kept) return kept;
  const digest = offer.models[at].digest;
  progress(`Fetching ${offer.titles[at]}`, 0, size(offer.models[at].size));
  const tasks = await task(offer, digest);
  const model = await fetchKept(offer.models[at], (share) => progress(`Fetching ${offer.titles[at]}`, share, size(offer.models[at].size)));
  const named = { key: offer.key, model: digest, stated: picked() };
  const outcome = { at, result: null, failures: [] };
  for (const backend of offer.backends) {
    try {
      outcome.result = { ...named, ...(await measureOn(backend, at, offer, tasks.inputs, model)) };
      break;
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      const { stage, error: name, message, operator, facts } = error;
      outcome.failures.push({ ...named, backend, stage, error: name.slice(0, 200), message: message.slice(0, 2000), operator: operator?.slice(0, 500) ?? null, facts });
    }
  }
  await write(keptName(offer, at), JSON.stringify(outcome));
  return outcome;
}

let devices = [];
function picked() {
  const text = $("stated").value.trim().toLowerCase();
  return devices.find(({ id, name }) => id === text || name.toLowerCase() === text)?.id ?? null;
}

async function offerDevices() {
  try {
    devices = await (await fetch("hardware.json")).json();
    $("devices").append(...devices.map(({ name }) => Object.assign(document.createElement("option"), { value: name })));
  } catch { /* The list is a help; without it nothing is stated. */ }
  $("stated").addEventListener("input", () => {
    const text = $("stated").value.trim();
    $("picked").textContent = !text ? "" : picked() ? `Your results will say: ${picked()}, as you stated.` : "Not in the list: your results will not say which device it is.";
  });
}

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

function cells(...texts) {
  const row = document.createElement("tr");
  for (const text of texts) row.append(Object.assign(document.createElement("td"), { textContent: text }));
  $("rows").append(row);
}

// Posts until the server answers: a result that was agreed to is kept, and sent by the next opening of this page as well.
async function delivered(path, body) {
  for (let wait = 2000; ; wait = Math.min(wait * 2, 60000)) {
    try {
      $("sent").textContent = "Sending…";
      const answer = await post(path, body);
      const verdict = answer.outcome ?? `${answer.verdict}${answer.reasons.length ? `: ${answer.reasons.join("; ")}` : ""}`;
      return { text: `taken, ${verdict}`, detail: answer.detail };
    } catch (error) {
      if (error instanceof Refused) return { text: `refused. ${error.message}` };
      $("sent").textContent = "The server cannot be reached. This result is kept and sent when it can; you may close the page and open it again.";
      await Promise.race([sleep(wait), new Promise((resolve) => addEventListener("online", resolve, { once: true }))]);
    }
  }
}

async function send(outcomes, offer) {
  $("send").hidden = $("drop").hidden = true;
  for (const outcome of outcomes) await write(keptName(offer, outcome.at), JSON.stringify({ ...outcome, agreed: true }));
  $("notes").replaceChildren();
  const details = new Set();
  for (const { at, result, failures } of outcomes) {
    const bodies = failures.map((failure) => ["failures", failure]).concat(result ? [["results", result]] : []);
    for (const [kind, body] of bodies) {
      const { text, detail } = await delivered(`/v1/links/${kind}`, body);
      item($("notes"), `${offer.titles[at]} on ${body.backend}: ${text}`);
      if (detail) details.add(detail);
    }
    await remove(keptName(offer, at));
  }
  $("sent").textContent = `Done. ${[...details].join(" ")} This device is known as ${offer.device}.`;
  document.documentElement.dataset.state = "sent";
}

// Exactly what would be posted, with long lists cut.
function shown(body) {
  return JSON.stringify(body, (name, value) => {
    if (name === "key") return undefined;
    if (name === "outputs") return `${value.length} outputs of the model`;
    if (Array.isArray(value) && value.length > 5) return `${value.slice(0, 3).map((each) => +each.toFixed(3)).join(", ")} … ${value.length} times in ms`;
    return value ?? undefined;
  }, 1);
}

function showOutcome({ at, result, failures }, offer) {
  const name = `${offer.titles[at]} ${offer.precisions[at]}`;
  for (const failure of failures) {
    cells(name, failure.backend, "did not run");
    const operator = failure.operator ? ` (operator ${failure.operator})` : "";
    item($("notes"), `${offer.titles[at]} on ${failure.backend}: ${failure.stage} failed with ${failure.error}${operator}: ${failure.message}`);
  }
  if (result) {
    const threads = result.backend === "wasm" ? `, ${result.facts.threads} thread${result.facts.threads > 1 ? "s" : ""}` : "";
    cells(name, `${result.backend}${threads}`, time(middle(result.samples)));
    if (result.facts.hidden) item($("notes"), "This page was hidden meanwhile, so the times count as doubtful.");
  }
  $("exact").append(...[...failures, result].filter(Boolean).map((body) => Object.assign(document.createElement("pre"), { textContent: shown(body) })));
}

async function run(offer) {
  begin();
  show("work");
  const outcomes = [], stopped = [];
  for (let at = 0; at < offer.models.length; at += 1) {
    try { outcomes.push(await measure(at, offer)); } catch (error) {
      if (!(error instanceof Refused)) throw error;
      stopped.push(`${offer.titles[at]}: ${error.message}`);
    }
  }
  begin(null);
  show("outcome");
  for (const outcome of outcomes) showOutcome(outcome, offer);
  for (const text of stopped) item($("notes"), text);
  $("exactly").hidden = !outcomes.length;
  if (!outcomes.length) {
    $("sent").textContent = "Nothing was measured, and nothing is sent.";
    document.documentElement.dataset.state = "stopped";
    return;
  }
  if (consented || outcomes.every(({ agreed }) => agreed)) { await send(outcomes, offer); return; }
  $("send").hidden = $("drop").hidden = false;
  $("send").onclick = () => send(outcomes, offer).catch((error) => { $("sent").textContent = error.message; });
  $("drop").onclick = async () => {
    for (const { at } of outcomes) await remove(keptName(offer, at));
    $("send").hidden = $("drop").hidden = true;
    $("sent").textContent = "Nothing was sent, and the result is forgotten.";
  };
}

function stop(error) {
  show("none");
  warn(error.message);
  document.documentElement.dataset.state = "stopped";
}

function warnOfPlainHttp() {
  const address = `https://${location.hostname}`;
  warn(`Only one-thread WASM here; use HTTPS. Whoever runs the service gives it with: caddy reverse-proxy --from ${address} --to 127.0.0.1:${location.port || 80} --internal-certs`);
}

async function open() {
  if (!token) throw new Error("This address has no token: open the whole link, to its last letter.");
  if (!isSecureContext && !isLocal) warnOfPlainHttp();
  navigator.serviceWorker?.register("offline.mjs").catch(() => {});
  const offer = await claim();
  if (offer.origin_trial) document.head.append(Object.assign(document.createElement("meta"), { httpEquiv: "origin-trial", content: offer.origin_trial }));
  offer.models.forEach((_, at) => item($("models"), `${offer.titles[at]}, ${offer.precisions[at]} (${size(offer.models[at].size)})`));
  const runtime = offer.runtime.filter(({ name }) => name.startsWith(`${offer.backends[0]}/`));
  $("size").textContent = size([...offer.models, ...runtime].reduce((sum, part) => sum + part.size, 0));
  await offerDevices();
  show("about");
  $("start").onclick = () => run(offer).catch(stop);
  const kept = await Promise.all(offer.models.map((_, at) => unsent(offer, at)));
  const begun = JSON.parse(settings(begunName) ?? "null");
  if (begun && begun.times <= RESUMED_MOST) {
    $("stated").value = begun.stated;
    resumed = true;
  }
  if (consented || resumed || kept.some(Boolean)) await run(offer);
}

open().catch(stop);
