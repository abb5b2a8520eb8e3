// SPDX-License-Identifier: Apache-2.0
// The model's thread. The first message brings the model, compiled or packed, a second one may bring a file of
// weights; each further one is a call of ask.cpp.
import { unpack } from "./unpack";

interface Model {
  ccall(name: string, returns: "string", types: string[], values: string[]): string;
  FS: { writeFile(path: string, bytes: Uint8Array): void };
}
declare function onchipModel(options: object): Promise<Model>; // the linker's, which stands before this text

// Four bytes of size, and LZMA.
function unpacked(packed: string): Promise<WebAssembly.Module> {
  const text = atob(packed), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) {
    bytes[i] = text.charCodeAt(i);
  }
  return WebAssembly.compile(unpack(bytes.subarray(4), new DataView(bytes.buffer).getUint32(0)));
}

let model: Promise<Model>;

onmessage = async ({ data }) => {
  if (data.packed !== undefined || data.module !== undefined) {
    const module = data.module ? Promise.resolve(data.module as WebAssembly.Module) : unpacked(data.packed);
    model = module.then((compiled) => onchipModel({
      instantiateWasm(imports: WebAssembly.Imports, received: (instance: WebAssembly.Instance) => void) {
        WebAssembly.instantiate(compiled, imports).then(received);
        return {};
      },
    }));
    if (!data.module) {
      postMessage({ module: await module });
    }
    return;
  }
  if (data.file !== undefined) {
    (await model).FS.writeFile(data.file, new Uint8Array(data.bytes));
    return;
  }
  const { id, name, values } = data as { id: number; name: string; values: string[] };
  const ready = await model;
  let text: string;
  try {
    text = ready.ccall(name, "string", values.map(() => "string"), values);
  } catch (problem) {
    text = JSON.stringify({ error: `the model stopped: ${problem}` });
    postMessage({ id, text, broken: true });
    return;
  }
  postMessage({ id, text });
};
