// What a page does to sound before a model: log-mel spectrograms as Whisper and CLAP take them, and normalised samples.
//
// A recipe is {kind, fft, hop, mels, filters}: kind is log10 (Whisper), decibel (CLAP) or normalise (Wav2Vec2); filters is
// a bank of [1 + fft / 2][mels] values. Tests compare it with the extractors of transformers.

const FLOOR = 1e-10;

export function extract(sound, recipe) {
  return recipe.kind === "normalise" ? normalised(sound) : logMel(sound, recipe);
}

function normalised(sound) {
  let mean = 0, variance = 0;
  for (let at = 0; at < sound.length; at += 1) mean += sound[at] / sound.length;
  for (let at = 0; at < sound.length; at += 1) variance += (sound[at] - mean) ** 2 / sound.length;
  const data = new Float32Array(sound.length), deviation = Math.sqrt(variance + 1e-7);
  for (let at = 0; at < sound.length; at += 1) data[at] = (sound[at] - mean) / deviation;
  return { dims: [sound.length], data };
}

function logMel(sound, { kind, fft, hop, mels, filters }) {
  // Frames are centred, so that there is one more than whole hops; Whisper leaves the last one out.
  const frames = Math.floor(sound.length / hop) + (kind === "log10" ? 0 : 1);
  const { window, transform, bands } = planOf(fft, mels, filters);
  const real = new Float64Array(fft), imaginary = new Float64Array(fft), powers = [new Float64Array(fft), new Float64Array(fft)];
  const energy = new Float64Array(frames * mels);
  for (let frame = 0; frame < frames; frame += 2) {
    // Two real frames are one complex one: the spectra are its even and its odd part.
    fill(real, sound, frame * hop - fft / 2, window);
    fill(imaginary, sound, (frame + 1) * hop - fft / 2, window);
    const spectrum = transform(real, imaginary);
    split(spectrum, powers, fft);
    for (let one = 0; one < 2 && frame + one < frames; one += 1) weigh(powers[one], bands, energy, (frame + one) * mels);
  }
  return kind === "log10" ? whisper(energy, frames, mels) : { dims: [frames, mels], data: Float32Array.from(energy, (value) => 10 * Math.log10(Math.max(value, FLOOR))) };
}

function whisper(energy, frames, mels) {
  const data = new Float32Array(frames * mels);
  let highest = -Infinity;
  for (let at = 0; at < energy.length; at += 1) {
    energy[at] = Math.log10(Math.max(energy[at], FLOOR));
    highest = Math.max(highest, energy[at]);
  }
  for (let frame = 0; frame < frames; frame += 1)
    for (let mel = 0; mel < mels; mel += 1) data[mel * frames + frame] = (Math.max(energy[frame * mels + mel], highest - 8) + 4) / 4;
  return { dims: [mels, frames], data };
}

// Samples from a place on, mirrored at both ends of the sound.
function fill(frame, sound, from, window) {
  const last = sound.length - 1;
  for (let at = 0; at < frame.length; at += 1) {
    const where = from + at, inside = where < 0 ? -where : where > last ? 2 * last - where : where;
    frame[at] = (sound[inside] ?? 0) * window[at];
  }
}

function split({ real, imaginary }, [first, second], size) {
  for (let at = 0; at <= size / 2; at += 1) {
    const other = (size - at) % size;
    const a = real[at] + real[other], b = imaginary[at] - imaginary[other];
    const c = imaginary[at] + imaginary[other], d = real[other] - real[at];
    first[at] = (a * a + b * b) / 4;
    second[at] = (c * c + d * d) / 4;
  }
}

function weigh(power, bands, energy, to) {
  for (let mel = 0; mel < bands.length; mel += 1) {
    const { from, weights } = bands[mel];
    let total = 0;
    for (let at = 0; at < weights.length; at += 1) total += power[from + at] * weights[at];
    energy[to + mel] = total;
  }
}

let plan = null;
function planOf(fft, mels, filters) {
  if (plan?.filters === filters && plan.fft === fft) return plan;
  const window = Float64Array.from({ length: fft }, (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / fft));
  const bands = Array.from({ length: mels }, (_, mel) => {
    const column = Float64Array.from({ length: 1 + fft / 2 }, (_each, at) => filters[at * mels + mel]);
    const from = Math.max(0, column.findIndex((value) => value !== 0)), to = column.findLastIndex((value) => value !== 0);
    return { from, weights: column.slice(from, to + 1) };
  });
  return plan = { fft, filters, window, bands, transform: fourier(fft) };
}

// A Fourier transform of any size with small prime factors (400 is 2⁴ · 5²): decimation in time.
function fourier(size) {
  const cosines = Float64Array.from({ length: size }, (_, at) => Math.cos((2 * Math.PI * at) / size));
  const sines = Float64Array.from({ length: size }, (_, at) => -Math.sin((2 * Math.PI * at) / size));
  const real = new Float64Array(size), imaginary = new Float64Array(size);
  const partsReal = new Float64Array(size), partsImaginary = new Float64Array(size);
  let inReal, inImaginary;
  const step = (length, from, stride, to) => {
    if (length === 1) {
      real[to] = inReal[from];
      imaginary[to] = inImaginary[from];
      return;
    }
    let radix = 2;
    while (length % radix) radix += 1;
    const part = length / radix, turn = size / length;
    for (let index = 0; index < radix; index += 1) step(part, from + index * stride, stride * radix, to + index * part);
    for (let at = 0; at < part; at += 1) {
      for (let index = 0; index < radix; index += 1) {
        const where = to + index * part + at, angle = index * at * turn;
        partsReal[index] = real[where] * cosines[angle] - imaginary[where] * sines[angle];
        partsImaginary[index] = real[where] * sines[angle] + imaginary[where] * cosines[angle];
      }
      for (let output = 0; output < radix; output += 1) {
        let x = 0, y = 0;
        for (let index = 0; index < radix; index += 1) {
          const angle = ((index * output) % radix) * part * turn;
          x += partsReal[index] * cosines[angle] - partsImaginary[index] * sines[angle];
          y += partsReal[index] * sines[angle] + partsImaginary[index] * cosines[angle];
        }
        real[to + output * part + at] = x;
        imaginary[to + output * part + at] = y;
      }
    }
  };
  return (realIn, imaginaryIn) => {
    [inReal, inImaginary] = [realIn, imaginaryIn];
    step(size, 0, 1, 0);
    return { real, imaginary };
  };
}
