// Trains in a thread of its own and tells the page. The few calls of WASI that the module makes are answered here.
let memory;
const wasi = {
  clock_time_get: (clock, precision, to) => {
    new DataView(memory.buffer).setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
    return 0;
  },
  random_get: () => 52,
  environ_sizes_get: (count, bytes) => {
    const view = new DataView(memory.buffer);
    view.setUint32(count, 0, true);
    view.setUint32(bytes, 0, true);
    return 0;
  },
  environ_get: () => 0,
  fd_write: (file, parts, count, written) => {
    const view = new DataView(memory.buffer);
    let text = '', sum = 0;
    for (let i = 0; i < count; ++i) {
      const at = view.getUint32(parts + 8 * i, true), size = view.getUint32(parts + 8 * i + 4, true);
      text += new TextDecoder().decode(new Uint8Array(memory.buffer, at, size));
      sum += size;
    }
    view.setUint32(written, sum, true);
    console.log(text);
    return 0;
  },
  proc_exit: (code) => { throw new Error('the module ended with ' + code); },
};

let soma;

// The first module that works here: fused multiply-adds want a browser and a machine that have them, and a learner without
// them ends when it begins.
async function start(modules) {
  for (const [i, bytes] of modules.entries()) {
    try {
      await load(bytes);
      soma.begin(1);
      return;
    } catch (error) {
      if (i + 1 === modules.length) throw error;
    }
  }
}

async function load(bytes) {
  const module = await WebAssembly.compile(bytes);
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = wasi[name] ?? (() => 8);  // no such file
  }
  const instance = await WebAssembly.instantiate(module, imports);
  soma = instance.exports;
  memory = soma.memory;
  soma._initialize?.();
}

const pixels = () => new Float32Array(memory.buffer, soma.picture(), 256);

// Ten new digits, with what they are and what the learner sees.
function samples(round) {
  return Array.from({ length: 10 }, (_, i) => {
    const is = soma.draw(1000 * round + i);
    return { is, picture: Array.from(pixels()), seen: soma.answer() };
  });
}

async function learn({ seconds, goal }) {
  soma.begin(1);
  const images = soma.images_of_a_step();
  let spent = 0, steps = 0;
  for (let round = 1; ; ++round) {
    const before = performance.now();
    const loss = soma.steps(20);
    spent += performance.now() - before;
    steps += 20;
    const accuracy = soma.accuracy(500, round);
    const over = accuracy >= goal || spent >= 1000 * seconds;
    postMessage({ kind: 'progress', steps, loss, accuracy, over, seconds: spent / 1000,
                  rate: steps * images / spent * 1000, samples: round % 5 == 1 || over ? samples(round) : null });
    if (over) break;
    await new Promise((next) => setTimeout(next));
  }
}

onmessage = async ({ data }) => {
  if (data.kind === 'start') await start(data.modules).then(() => learn(data));
  if (data.kind === 'learn') await learn(data);
  if (data.kind === 'answer') {
    pixels().set(data.picture);
    postMessage({ kind: 'answer', seen: soma.answer() });
  }
};
