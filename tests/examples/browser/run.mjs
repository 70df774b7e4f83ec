// Runs the module of the page under node: loads worker.js as the page does, learns, and checks what it says.
// Usage: node run.mjs WORKER.js MODULE.wasm...   the modules in the order in which the worker tries them
import { readFileSync } from 'node:fs';
import { argv, exit } from 'node:process';

const [worker, ...files] = argv.slice(2);
const modules = files.map((file) => readFileSync(file));
let drawn = 0;

function receive(data) {
  if (data.kind === 'answer') {
    console.log(`answer ${data.seen}`);
    if (!(data.seen >= 0 && data.seen <= 9)) exit(1);
    exit(0);
  }
  if (data.samples) drawn += data.samples.length;
  if (!data.over) return;
  console.log(`${data.steps} steps, loss ${data.loss.toFixed(4)}, accuracy ${data.accuracy.toFixed(4)}, ` +
              `${data.seconds.toFixed(2)} s, ${Math.round(data.rate)} images a second, ${drawn} samples`);
  if (data.accuracy < 0.95 || drawn < 20) exit(1);
  globalThis.onmessage({ data: { kind: 'answer', picture: new Float32Array(256) } });
}

// What a worker finds in a browser.
globalThis.postMessage = receive;
new Function(readFileSync(worker, 'utf8'))();
globalThis.onmessage({ data: { kind: 'start', modules, seconds: 60, goal: 0.97 } });
