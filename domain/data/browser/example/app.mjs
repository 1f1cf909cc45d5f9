// Runs a model with the first backend of choice.json that works in this browser and gives right outputs.
//
// `choose` is what an application needs: it tries the backends in their order, each in a Worker of its own that is ended
// where it fails or does not answer, and returns the Worker whose session is open. The rest of this file shows the result.

import { startWorker } from "./page.mjs";

const $ = (id) => document.getElementById(id);
const MOST_THREADS = 8;
const here = (path) => new URL(path, import.meta.url).href;

async function json(path) {
  const answer = await fetch(here(path));
  if (!answer.ok) throw new Error(`${path} was answered with HTTP ${answer.status}`);
  return answer.json();
}

// Returns what the worker said during some steps; throws what failed, or that there was no answer in time.
async function did(worker, said, task, deadlineMs) {
  said.length = 0;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${task.steps.at(-1)}: no answer within ${deadlineMs / 1000} s`)), deadlineMs);
  });
  const last = await Promise.race([worker.run(task), late]).finally(() => clearTimeout(timer));
  if (last.kind === "failed") throw new Error(`${last.stage}: ${last.message}${last.operator ? ` (${last.operator})` : ""}`);
  return said.slice();
}

function numbers({ data }) {
  return new Float32Array(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)).buffer);
}

// The rule of `assay verify`: the shape, what is finite, the cosine similarity, and the largest difference over the largest value.
export function wrong(outputs, references, { cosine, relative }) {
  for (const reference of references) {
    const output = outputs.find(({ name }) => name === reference.name);
    if (!output) return `the output ${reference.name} is missing`;
    if (String(output.dims) !== String(reference.dims)) return `${reference.name} has the shape [${output.dims}], not [${reference.dims}]`;
    const got = numbers(output), right = numbers(reference);
    let product = 0, ours = 0, theirs = 0, apart = 0, largest = 0;
    for (let at = 0; at < right.length; at += 1) {
      if (Number.isFinite(got[at]) !== Number.isFinite(right[at])) return `${reference.name} is not finite where it should be`;
      if (!Number.isFinite(right[at])) continue;
      product += got[at] * right[at];
      ours += got[at] ** 2;
      theirs += right[at] ** 2;
      apart = Math.max(apart, Math.abs(got[at] - right[at]));
      largest = Math.max(largest, Math.abs(right[at]));
    }
    const alike = ours && theirs ? product / Math.sqrt(ours * theirs) : apart === 0 ? 1 : 0;
    const error = largest ? apart / largest : apart === 0 ? 0 : Infinity;
    if (!(alike >= cosine && error <= relative)) {
      return `${reference.name} is wrong: cosine ${alike.toFixed(6)} (at least ${cosine}), largest relative error ${error.toPrecision(3)} (at most ${relative})`;
    }
  }
  return null;
}

// A software adapter is the processor, where WebAssembly is quicker. Returns its name, or null.
async function softwareAdapter() {
  const info = (await navigator.gpu?.requestAdapter())?.info;
  if (!info) return null;
  const name = [info.vendor, info.architecture, info.description].filter(Boolean).join(" ");
  return info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|basic render|softpipe/i.test(name) ? name : null;
}

// Opens the model on one backend, checks its outputs, and returns the open worker with the median time of a call in ms.
export async function open(rung, reference, choice) {
  const software = rung.backend === "webgpu" ? await softwareAdapter() : null;
  if (software) throw new Error(`the WebGPU adapter is software, which is the processor: ${software}`);
  const said = [];
  const worker = startWorker((message) => said.push(message));
  const deadlineMs = choice.deadline_s * 1000;
  const run = (task) => did(worker, said, task, deadlineMs);
  try {
    const shared = self.crossOriginIsolated && typeof SharedArrayBuffer === "function";
    const threads = rung.backend === "wasm" && shared ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
    const { module, mjs, wasm } = rung.runtime;
    await run({
      steps: ["load", "compile", "feed"], backend: rung.backend, device_type: rung.device_type, threads, inputs: reference.inputs,
      runtime: { module: here(module), mjs: here(mjs), wasm: here(wasm) },
      model: { url: here(rung.model.path), bytes: rung.model.bytes, digest: rung.model.digest }, progress_ms: null, log_level: "error",
    });
    const outputs = (await run({ steps: ["call"] })).find(({ kind }) => kind === "outputs").outputs;
    const why = wrong(outputs, reference.outputs, rung.tolerance);
    if (why) throw new Error(why);
    const method = { warm_up_ms: choice.warm_up_ms, least_warm_up_ms: 0, budget_ms: choice.measure_ms };
    const series = (await run({ steps: ["warm_up", "measure"], method })).find(({ kind }) => kind === "samples");
    const times = series.ms.toSorted((a, b) => a - b);
    return { worker, threads, ms: times[times.length >> 1], calls: times.length };
  } catch (error) {
    worker.end();
    throw error;
  }
}

// Tries the backends in their order and returns the first that works; `tell` hears what each came to.
export async function choose(choice, reference, tell) {
  for (const [at, rung] of choice.order.entries()) {
    tell(at, { trying: true });
    try {
      const opened = await open(rung, reference, choice);
      tell(at, opened);
      return { at, rung, ...opened };
    } catch (error) { tell(at, { error: error.message }); }
  }
  return null;
}

const time = (ms) => (ms < 1 ? ms.toFixed(3) : ms < 100 ? ms.toFixed(2) : ms.toFixed(0)) + " ms";

function evidenceWords({ evidence, note }) {
  if (!evidence) return note ?? "not measured";
  const interval = evidence.low_ms === null ? "" : ` (${evidence.low_ms.toPrecision(3)} to ${evidence.high_ms.toPrecision(3)})`;
  const words = `${time(evidence.p50_ms)}${interval} in ${evidence.browser ?? "a browser"}, ${evidence.verdict}, row ${evidence.row}`;
  return note ? `${words}; ${note}` : words;
}

function cell(row, head, text, name = "") {
  const made = document.createElement("td");
  if (head) made.dataset.head = head;
  made.className = name;
  made.textContent = text;
  row.append(made);
  return made;
}

function drawRows(choice) {
  return choice.order.map((rung) => {
    const row = document.createElement("tr");
    row.dataset.backend = rung.backend;
    cell(row, "", `${rung.backend} ${rung.precision}`);
    const call = cell(row, "A call here", "–", "number");
    cell(row, "Measured before", evidenceWords(rung));
    const state = cell(row, "Here", "not tried");
    $("rows").append(row);
    return { row, call, state };
  });
}

function told(line, what, used) {
  if (what.trying) line.state.textContent = "trying";
  else if (what.error) line.state.textContent = `not used: ${what.error}`;
  else {
    line.call.textContent = time(what.ms);
    line.state.textContent = `${used ? "used" : "works"}: outputs right, median of ${what.calls} calls${what.threads > 1 ? `, ${what.threads} threads` : ""}`;
    if (used) line.row.className = "used";
  }
}

async function tryOthers(choice, reference, lines, used) {
  $("every").disabled = true;
  for (const [at, rung] of choice.order.entries()) {
    if (at === used || lines[at].state.textContent !== "not tried") continue;
    told(lines[at], { trying: true });
    try {
      const opened = await open(rung, reference, choice);
      opened.worker.end();
      told(lines[at], opened, false);
    } catch (error) { told(lines[at], { error: error.message }); }
  }
  $("every").hidden = true;
  document.documentElement.dataset.state = "all";
}

async function start() {
  const [choice, reference] = await Promise.all([json("choice.json"), json("reference.json")]);
  $("title").textContent = choice.model;
  $("basis").textContent = choice.basis;
  if (!self.crossOriginIsolated) {
    $("warning").textContent = "This page is not cross-origin isolated: WebAssembly has one thread. README.txt says which headers the host must send.";
    $("warning").hidden = false;
  }
  const lines = drawRows(choice);
  const chosen = await choose(choice, reference, (at, what) => {
    if (what.trying) $("ran").textContent = `Trying ${choice.order[at].backend}`;
    told(lines[at], what, true);
  });
  $("bar").hidden = true;
  const { dataset } = document.documentElement;
  if (!chosen) {
    $("ran").textContent = "No backend runs this model here.";
    dataset.state = "none";
    return;
  }
  const others = chosen.at ? `; ${choice.order.slice(0, chosen.at).map(({ backend }) => backend).join(" and ")} did not work` : "";
  $("ran").textContent = `${chosen.rung.backend} runs it: ${time(chosen.ms)} a call${others}.`;
  Object.assign(dataset, { state: "done", backend: chosen.rung.backend });
  if (chosen.at < choice.order.length - 1) {
    $("every").hidden = false;
    $("every").onclick = () => tryOthers(choice, reference, lines, chosen.at);
  }
}

start().catch((error) => {
  $("bar").hidden = true;
  $("ran").textContent = `This page is not complete: ${error.message}`;
  document.documentElement.dataset.state = "broken";
});
