// Runs tasks in a Worker and passes on what it says.
//
// A task is JSON:
//   steps       which of environment, load, compile, feed, call, warm_up, measure, bare, observe, beside, features, warm, limits, close to do, in order
//   backend     wasm, webgpu or webnn; device_type (webnn): cpu, gpu or npu; threads: a number, or null for one
//   runtime     {module, mjs, wasm}: addresses of onnxruntime-web's files; version
//   model       {url, bytes, digest, data: [{path, url, bytes, digest}]}: an ONNX file and its external data
//   inputs      [{name, type, dims, url | data}]: little-endian values at an address, or in base64
//   method      {warm_up_ms, least_warm_up_ms, budget_ms, iterations, most, calls}
//   features    {kind, fft, hop, mels, filters, sound, batch, repeats, reply}: what of features.mjs to time, with addresses of values
//   progress_ms how often to say how far loading and a series are; null for never
//   in_turn     true to fetch file after file and then the runtime, in place of all at once
//   log_level   of onnxruntime, verbose where nothing is said: `observe` reads it
// A message is {kind, key, …}; kinds: environment, phase, progress, outputs, samples, log, done, failed.
//
// `measure` runs one task (a link); `follow` asks for one after the other (a driver) and keeps the session between them.

export function startWorker(onMessage) {
  const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  let hidden = document.visibilityState === "hidden";
  document.addEventListener("visibilitychange", () => { hidden ||= document.visibilityState === "hidden"; });
  let settle = () => {};
  worker.onmessage = ({ data }) => {
    if (data.kind === "samples") {
      data.hidden = hidden;
      hidden = document.visibilityState === "hidden";
    }
    onMessage(data);
    if (data.kind === "done" || data.kind === "failed") settle(data);
  };
  const broke = (name, message) => {
    const failed = { kind: "failed", stage: "load", name, message };
    onMessage(failed);
    settle(failed);
  };
  worker.onerror = (event) => broke("WorkerError", event.message || "the worker could not be started");
  worker.onmessageerror = () => broke("DataCloneError", "a message of the worker could not be read");
  return {
    run: (task) => new Promise((resolve) => { settle = resolve; worker.postMessage(task); }),
    end: () => worker.terminate(),
  };
}

export async function measure(task, onMessage) {
  const worker = startWorker(onMessage);
  try { return await worker.run(task); } finally { worker.end(); }
}

export async function follow({ key, next, say, show, stay }) {
  // An answer that never ends: its connection closes with the page, also where the page crashed.
  stay().catch(() => {});
  let sent = Promise.resolve();
  const worker = startWorker((message) => {
    show(message);
    const line = JSON.stringify({ ...message, key });
    sent = sent.then(() => say(line)).catch(() => {});
  });
  for (;;) {
    let answer;
    try { answer = await next(); } catch { return; }
    if (answer.status === 204) continue;
    if (!answer.ok) return;
    await worker.run(await answer.json());
    await sent;
  }
}
