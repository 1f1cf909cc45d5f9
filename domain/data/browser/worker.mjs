// Does the steps of a task (page.mjs says what a task is): opens a model with onnxruntime-web, calls it, and times calls.

const MOST_BYTES = 2 ** 31 - 1;
const WARM_UP_WINDOW_MS = 50;
const LOSS_MS = 500;
const LIMIT_STEP_BYTES = 2 ** 26, MOST_ASKED_BYTES = 2 ** 34;
const TYPES = {
  float32: Float32Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array,
  float16: Uint16Array, float64: Float64Array,
};
// (func (param i32) (result i32)): a linear congruential generator stepped so many times.
const SPIN = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 127, 1, 127, 3, 2, 1, 0, 7, 8, 1, 4, 115, 112, 105, 110, 0, 0, 10, 36, 1, 34,
  1, 1, 127, 3, 64, 32, 1, 65, 141, 204, 101, 108, 65, 223, 230, 187, 227, 3, 106, 33, 1, 32, 0, 65, 1, 107, 34, 0, 13, 0,
  11, 32, 1, 11,
]);

// (func (result v128)): valid where there is SIMD.
const SIMD = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);

class Refusal extends Error {
  constructor(name, message) { super(message); this.name = name; }
}

let ort, session, feeds, opened, task;
let stage = "load";
let gpuLost = null, gpuLoss = null;
let nested = 0, clock = 0;
let loaded = { digest_ms: 0 };
let warmed = { times: [], steady: null, elapsed_ms: 0 };
const log = [];

const say = (kind, rest = {}) => self.postMessage({ kind, ...rest });
const reach = (name) => { stage = name; say("phase", { stage: name, begins: true }); };

// onnxruntime writes its log to the console, in whichever of these its build uses.
for (const level of ["log", "info", "warn", "error", "debug"]) {
  const write = console[level].bind(console);
  console[level] = (...words) => {
    log.push(...words.map(String).join(" ").split("\n"));
    if (log.length > 20000) log.splice(0, 10000);
    if (level === "error") write(...words);
  };
}

// Every thread of onnxruntime beside this one is a Worker.
const Plain = self.Worker;
if (Plain) self.Worker = class extends Plain { constructor(...how) { super(...how); nested += 1; } };

function clockStep() {
  let step = Infinity;
  for (let count = 0, last = performance.now(); count < 20;) {
    const now = performance.now();
    if (now > last) { step = Math.min(step, now - last); last = now; count += 1; }
  }
  return clock = step;
}

let spinner;
function spin(count) {
  spinner ??= new WebAssembly.Instance(new WebAssembly.Module(SPIN)).exports.spin;
  return spinner(count);
}

function spinMs() {
  spin(1e6);
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    const start = performance.now();
    spin(5e6);
    times.push(performance.now() - start);
  }
  return Math.min(...times);
}

async function adapterFacts() {
  if (!navigator.gpu) return null;
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) return null;
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter.info ?? {};
  (await adapter.requestDevice()).destroy();
  return {
    vendor, architecture, device, description, isFallbackAdapter: isFallbackAdapter ?? adapter.isFallbackAdapter ?? null,
    shader_f16: adapter.features.has("shader-f16"),
  };
}

// Whether a WebNN context can be made for each type of device: true, or why not; null where there is no navigator.ml.
async function contexts() {
  if (!navigator.ml) return null;
  const made = {};
  for (const deviceType of ["cpu", "gpu", "npu"]) {
    try {
      (await navigator.ml.createContext({ deviceType })).destroy?.();
      made[deviceType] = true;
    } catch (error) { made[deviceType] = String(error); }
  }
  return made;
}

async function environment() {
  const hints = ["fullVersionList", "platform", "platformVersion", "architecture", "bitness", "model"];
  const agent = await navigator.userAgentData?.getHighEntropyValues?.(hints).catch(() => null);
  say("environment", {
    user_agent: navigator.userAgent,
    user_agent_data: agent ?? null,
    isolated: self.crossOriginIsolated === true,
    shared_memory: typeof SharedArrayBuffer === "function",
    secure: self.isSecureContext === true,
    hardware_concurrency: navigator.hardwareConcurrency ?? null,
    device_memory_gib: navigator.deviceMemory ?? null,
    clock_step_ms: clockStep(),
    wasm: typeof WebAssembly === "object" && Number.isInteger(spin(1e3)),
    simd: typeof WebAssembly === "object" && WebAssembly.validate(SIMD),
    gpu: Boolean(navigator.gpu),
    adapter: await adapterFacts().catch((error) => ({ error: String(error) })),
    ml: await contexts(),
  });
}

async function fetched({ url, bytes, digest }, onBytes) {
  if (bytes > MOST_BYTES) throw new Refusal("ModelTooLarge", `a file of ${bytes} bytes is more than the 2 GiB that a browser holds in one piece`);
  const answer = await fetch(url);
  if (!answer.ok) throw new Refusal("ModelNotFound", `the model's file was answered with HTTP ${answer.status}`);
  const kind = answer.headers.get("content-type") ?? "";
  if (kind.startsWith("text/html")) throw new Refusal("NotAModel", "HTML came in place of the model's file");
  const data = bytes != null ? await streamed(answer, bytes, onBytes) : new Uint8Array(await answer.arrayBuffer());
  if (data[0] === 0x3c && data[1] === 0x21) throw new Refusal("NotAModel", "HTML came in place of the model's file");
  if (bytes != null && data.length !== bytes) throw new Refusal("Truncated", `the model's file has ${data.length} of ${bytes} bytes`);
  await checked(data, digest);
  return data;
}

async function checked(data, digest) {
  if (!digest || !self.crypto?.subtle) return;
  const start = performance.now();
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  loaded.digest_ms += performance.now() - start;
  const found = `sha256:${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  if (found !== digest) throw new Refusal("WrongDigest", "the model's file is not the one that was offered: its digest differs");
}

async function streamed(answer, bytes, onBytes) {
  const data = new Uint8Array(bytes), reader = answer.body.getReader();
  for (let at = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return data.subarray(0, at);
    if (at + value.length > bytes) throw new Refusal("WrongSize", `the model's file has more than the ${bytes} bytes that were offered`);
    data.set(value, at);
    at += value.length;
    onBytes(value.length);
  }
}

async function tensor({ name, type, dims, url, data }) {
  const bytes = url ? new Uint8Array(await (await fetch(url)).arrayBuffer()) : Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
  if (!(type in TYPES)) throw new Refusal("UnknownType", `the input ${name} is of type ${type}, which this page does not make`);
  return [name, new ort.Tensor(type, new TYPES[type](bytes.buffer), dims)];
}

function requireBackend() {
  const { backend, threads } = task;
  if (backend === "webgpu" && !navigator.gpu) throw new Refusal("NoWebGpu", "this browser has no navigator.gpu here; its flag is off or the page is not secure");
  if (backend === "webnn" && !navigator.ml) throw new Refusal("NoWebNn", "this browser has no navigator.ml here; its flag is off or it has no WebNN");
  if (backend !== "wasm" || !(threads > 1)) return;
  if (!self.crossOriginIsolated) throw new Refusal("NotIsolated", `${threads} threads were asked for, and this page is not cross-origin isolated: only one is possible`);
  if (typeof SharedArrayBuffer !== "function") throw new Refusal("NoSharedArrayBuffer", `${threads} threads were asked for, and this browser has no SharedArrayBuffer`);
}

const providers = (deviceType = task.device_type) =>
  [task.backend === "webnn" ? { name: "webnn", deviceType: deviceType ?? "cpu" } : task.backend];

const create = (more = {}) => ort.InferenceSession.create(opened.model, {
  executionProviders: providers(), externalData: opened.data, logSeverityLevel: 3, ...more,
});

async function load() {
  reach("load");
  requireBackend();
  if (task.backend === "webgpu" && !(await navigator.gpu.requestAdapter())) throw new Refusal("NoAdapter", "the browser gives no WebGPU adapter");
  const start = performance.now();
  loaded = { digest_ms: 0 };
  const clocked = async (name, work) => {
    const begun = performance.now(), result = await work();
    loaded[name] = performance.now() - begun;
    return result;
  };
  const runtime = () => clocked("runtime_ms", () => import(task.runtime.module));
  const model = () => clocked("fetch_ms", modelFiles);
  // The model comes while the runtime does; one after the other is what research/browser_loading.py compares it with.
  if (task.in_turn) { opened = await model(); ort = await runtime(); } else [opened, ort] = await Promise.all([model(), runtime()]);
  const wasmPaths = { mjs: task.runtime.mjs, wasm: task.runtime.wasm };
  Object.assign(ort.env.wasm, { numThreads: task.threads ?? 1, wasmPaths, proxy: false });
  ort.env.logLevel = task.log_level ?? "verbose";
  say("phase", { stage: "load", ms: performance.now() - start, ...loaded });
}

// The graph and its external data, all at once; how far they are is told where `progress_ms` asks for it.
async function modelFiles() {
  const files = [task.model, ...(task.model.data ?? [])], of = files.reduce((total, { bytes }) => total + (bytes ?? 0), 0);
  let bytes = 0, told = performance.now();
  const onBytes = (more) => {
    bytes += more;
    if (!task.progress_ms || (bytes < of && performance.now() - told < task.progress_ms)) return;
    told = performance.now();
    say("progress", { loaded_bytes: bytes, of_bytes: of });
  };
  const contents = [];
  if (task.in_turn) for (const file of files) contents.push(await fetched(file, onBytes));
  else contents.push(...(await Promise.all(files.map((file) => fetched(file, onBytes)))));
  return { model: contents[0], data: files.slice(1).map(({ path }, at) => ({ path, data: contents[at + 1] })) };
}

// The same files from the browser's cache, where they lie by digest: what a second visit takes. Filling it is not timed.
async function warm() {
  reach("run");
  const files = [task.model, ...(task.model.data ?? [])], contents = [opened.model, ...opened.data.map(({ data }) => data)];
  const name = "assay-models", address = ({ digest }) => new URL(`kept/${digest.replace("sha256:", "")}`, self.location.href).href;
  if (!self.caches) return;
  try {
    const cache = await caches.open(name);
    await Promise.all(files.map((file, at) => cache.put(address(file), new Response(contents[at]))));
    const start = performance.now();
    await Promise.all(files.map(async (file) => checked(new Uint8Array(await (await cache.match(address(file))).arrayBuffer()), file.digest)));
    say("progress", { warm_ms: performance.now() - start });
    await caches.delete(name);
  } catch (error) { say("progress", { warm_ms: null, why: String(error) }); }
}

async function compile() {
  reach("compile");
  const start = performance.now();
  session = await create();
  say("phase", { stage: "compile", ms: performance.now() - start, threads: nested + 1 });
  watchDevice();
}

async function feed() {
  feeds = Object.fromEntries(await Promise.all(task.inputs.map(tensor)));
}

function watchDevice() {
  if (task.backend !== "webgpu") return;
  gpuLoss = Promise.resolve(ort.env.webgpu?.device)
    .then((device) => device?.lost)
    .then((info) => { gpuLost = info ? info.message || info.reason : null; })
    .catch(() => {});
}

// A call fails in its own words when the device is lost under it; the loss itself is told a moment later.
async function lossOf(error) {
  if (gpuLoss && stage !== "compile") await Promise.race([gpuLoss, new Promise((resolve) => setTimeout(resolve, LOSS_MS))]);
  return gpuLost === null || error?.name === "DeviceLost" ? error : new Refusal("DeviceLost", `the GPU was lost: ${gpuLost}`);
}

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function widened(value) {
  if (value.type === "float32") return value.data;
  if (value.type === "float16" && value.data instanceof Uint16Array) return Float32Array.from(value.data, half);
  return Float32Array.from(value.data, Number);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

async function call() {
  reach("first_run");
  const start = performance.now();
  const result = await session.run(feeds);
  const ms = performance.now() - start;
  const outputs = session.outputNames.map((name) => {
    const data = widened(result[name]);
    return { name, type: result[name].type, dims: [...result[name].dims], data: base64(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
  });
  say("outputs", { ms, outputs });
}

async function timed(running = session, calls = 1) {
  const start = performance.now();
  for (let count = 0; count < calls; count += 1) await running.run(feeds);
  const ms = (performance.now() - start) / calls;
  if (gpuLost !== null) throw new Refusal("DeviceLost", `the GPU was lost: ${gpuLost}`);
  return ms;
}

const median = (values) => {
  const sorted = Float64Array.from(values).sort(), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// The rule of runner/measure/stopping.py: the medians of two windows differ by at most 2 %, or by the noise.
function steady(times) {
  const window = Math.min(Math.max(Math.ceil(WARM_UP_WINDOW_MS / Math.max(median(times.slice(-5)), 1e-6)), 5), 500);
  if (times.length < 2 * window) return false;
  const newer = times.slice(-window), level = median(newer);
  const noise = median(newer.map((value) => Math.abs(value - level)));
  return Math.abs(median(times.slice(-2 * window, -window)) - level) <= Math.max(0.02 * level, noise);
}

async function warmUp(running = session) {
  const { warm_up_ms: budget, least_warm_up_ms: least = 0 } = task.method;
  const times = [], start = performance.now();
  for (let look = 1; times.length < 20000;) {
    times.push(await timed(running));
    const spent = performance.now() - start, over = spent >= budget && times.length >= 4;
    if (times.length < look && !over) continue;
    look = times.length + Math.max(1, Math.floor(times.length / 10));
    if (over || (spent >= least && steady(times))) return { times, steady: steady(times), elapsed_ms: spent };
  }
  return { times, steady: false, elapsed_ms: performance.now() - start };
}

// A clock whose steps are longer than a call tells nothing of one: then a sample is the mean of calls that last 20 steps.
function callsPerSample() {
  const { times, elapsed_ms } = warmed, mean = elapsed_ms / times.length;
  return times.length && mean < 2 * clock ? Math.ceil(20 * clock / Math.max(mean, clock / 1000)) : 1;
}

async function series(running = session) {
  const { budget_ms: budget, iterations, most = 8000, least = 10 } = task.method;
  const times = [], calls = callsPerSample(), start = performance.now();
  for (let told = start; ;) {
    times.push(await timed(running, calls));
    const now = performance.now(), spent = now - start;
    if (task.progress_ms && now - told >= task.progress_ms) {
      say("progress", { share: Math.min(1, iterations ? times.length / iterations : spent / budget), calls: times.length });
      told = now;
    }
    if (iterations ? times.length >= iterations : (spent >= budget && times.length >= Math.min(least, 3)) || times.length >= most)
      return { times, calls, elapsed_ms: spent, stopped_by: iterations ? "iterations" : times.length >= most ? "samples" : "budget" };
  }
}

async function measure() {
  reach("run");
  const before = spinMs();
  const { times, calls, elapsed_ms, stopped_by } = await series();
  say("samples", { ms: times, calls_per_sample: calls, warm_up: warmed.times, steady: warmed.steady, elapsed_ms, stopped_by, loop_ms: [before, spinMs()], memory_bytes: memory() });
}

// One reading of the clock before and one after all calls: what timing call by call is compared with. The loop before is that of `measure`.
async function bare() {
  spinMs();
  const calls = task.method.calls ?? 100, start = performance.now();
  for (let count = 0; count < calls; count += 1) await session.run(feeds);
  const ms = (performance.now() - start) / calls;
  say("progress", { bare_ms: ms, calls });
}

function memory() {
  return performance.memory?.usedJSHeapSize ?? null;
}

// A session of its own whose log says where each node went; its cost is in no time that is told.
async function observe() {
  reach("run");
  const from = log.length;
  const other = await create({ logSeverityLevel: 0 });
  const lines = log.slice(from).filter((line) => /placed on|partition|number of nodes|WebNN.*(support|device)|fallback/i.test(line));
  say("log", { lines: lines.slice(0, 400), runtime: ort.env.versions?.web ?? null });
  await other.release?.();
}

// The same calls on WebNN's cpu: browsers do not tell which device they used.
async function beside() {
  reach("run");
  const other = await create({ executionProviders: providers("cpu") });
  await warmUp(other);
  const { times } = await series(other);
  say("progress", { beside: "cpu", ms: times });
  await other.release?.();
}

// The features of one batch, timed apart from the model: the median of these times is what a row has.
async function features() {
  reach("run");
  const { extract } = await import("./features.mjs");
  const { batch, repeats, sound: address, filters, reply, ...recipe } = task.features;
  const floats = async (url) => new Float32Array(await (await fetch(url)).arrayBuffer());
  const sound = await floats(address);
  if (filters) recipe.filters = await floats(filters);
  const times = [];
  let last;
  for (let round = 0; round <= repeats; round += 1) {
    const start = performance.now();
    for (let item = 0; item < batch; item += 1) last = extract(sound, recipe);
    if (round) times.push(performance.now() - start);
  }
  say("progress", { features: { ms: times, ...(reply && { dims: last.dims, data: base64(new Uint8Array(last.data.buffer)) }) } });
}

// The largest pieces of memory that this browser gives, found by asking: nothing is written to them, so they cost no memory.
async function limits() {
  const largest = (gives) => {
    let fits = 0, fails = MOST_ASKED_BYTES + LIMIT_STEP_BYTES;
    while (fails - fits > LIMIT_STEP_BYTES) {
      const middle = fits + Math.floor((fails - fits) / 2 / LIMIT_STEP_BYTES) * LIMIT_STEP_BYTES;
      try { gives(middle); fits = middle; } catch { fails = middle; }
    }
    return fits;
  };
  say("progress", { limits: {
    array_buffer_bytes: largest((bytes) => new ArrayBuffer(bytes)),
    wasm_memory_bytes: largest((bytes) => new WebAssembly.Memory({ initial: bytes / 65536, maximum: bytes / 65536 })),
  } });
}

async function close() {
  await session?.release?.();
  session = undefined;
}

const STEPS = {
  environment, load, compile, feed, call, measure, bare, observe, beside, features, warm, limits, close,
  warm_up: async () => { reach("run"); warmed = await warmUp(); say("progress", { warm_up: warmed.times, steady: warmed.steady }); },
};

function operatorOf(message) {
  return /(?:operator|op_type|Op|kernel for|node)[\s:'"\[(]+(?:ai\.onnx[.\w]*\.)?([A-Z][A-Za-z]+[A-Za-z0-9]*)/.exec(message)?.[1] ?? null;
}

self.onmessage = async ({ data }) => {
  task = { ...task, ...data };
  try {
    for (const step of data.steps) await STEPS[step]();
    say("done");
  } catch (reason) {
    const error = await lossOf(reason);
    // A build without exceptions throws the address of one as a number.
    const message = error?.message ?? `onnxruntime threw ${String(error)}`;
    const last = log.filter((line) => /\[E:|error|abort/i.test(line)).slice(-5).join(" | ").slice(0, 1500);
    say("failed", { stage, name: error?.name ?? "Error", message, operator: operatorOf(`${message} ${last}`), log: last, lost: gpuLost });
  }
};
