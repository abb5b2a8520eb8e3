// SPDX-License-Identifier: Apache-2.0
// Threads of the model: one answers what is shown now, the others fill in what takes longer. The page waits for
// neither. Of questions about what is shown only the newest is asked; an answer that was overtaken resolves to null.

interface Call {
  name: string;
  values: string[];
  done: (text: string | null) => void;
}

class Thread {
  private worker?: Worker;
  private queue: Call[] = [];
  private running?: Call;
  private since = 0;
  private id = 0;
  starts = 0; // what a thread keeps of earlier questions is lost when it starts anew

  constructor(private start: () => Worker) {}

  call(name: string, values: string[], first = false): Promise<string | null> {
    return new Promise((done) => {
      this.queue[first ? "unshift" : "push"]({ name, values, done });
      this.next();
    });
  }

  // Drops all questions. What is being computed is let finish if it just began, since what the thread keeps of
  // earlier questions is worth more; the answer is dropped all the same.
  forget(patience: number): void {
    const { running } = this;
    const is_asked = (call: Call): boolean => call.name.startsWith("page_ask");
    this.queue.filter(is_asked).forEach((call) => call.done(null));
    this.queue = this.queue.filter((call) => !is_asked(call));
    if (running && is_asked(running)) {
      running.done(null);
      running.done = () => {};
      if (performance.now() - this.since > patience) {
        this.stop();
      }
    }
  }

  stop(): void {
    this.worker?.terminate();
    this.worker = this.running = undefined;
  }

  private next(): void {
    if (this.running || this.queue.length === 0) {
      return;
    }
    if (!this.worker) {
      this.worker = this.start();
      ++this.starts;
      const worker = this.worker;
      worker.addEventListener("message", ({ data }) => {
        if (data.id !== this.id || worker !== this.worker || !this.running) {
          return;
        }
        const { done } = this.running;
        this.running = undefined;
        if (data.broken) {
          this.stop();
        }
        done(data.text);
        this.next();
      });
    }
    this.running = this.queue.shift()!;
    this.since = performance.now();
    this.worker.postMessage({ id: ++this.id, name: this.running.name, values: this.running.values });
  }
}

const inline = (id: string): string => document.getElementById(id)!.textContent!;

export class Engine {
  private module?: WebAssembly.Module;
  private source = URL.createObjectURL(new Blob([inline("worker")], { type: "text/javascript" }));
  readonly now = new Thread(() => this.start());
  // What is filled in, in one thread or, where there are cores for it, two.
  private later = Array.from({ length: navigator.hardwareConcurrency > 1 ? 2 : 1 }, () => new Thread(() => this.start()));

  private aside = new Thread(() => this.start()); // for scripts, and only started by them

  private start(): Worker {
    const worker = new Worker(this.source);
    if (this.module) {
      worker.postMessage({ module: this.module });
    } else {
      worker.postMessage({ packed: inline("model") });
      worker.addEventListener("message", ({ data }) => (this.module ??= data.module));
    }
    if (this.weights) {
      worker.postMessage({ file: this.weights.file, bytes: this.weights.bytes });
    }
    return worker;
  }

  // Weights of the user's own: every thread has them in its memory, and nobody else does.
  private weights?: { name: string; file: string; bytes: ArrayBuffer };

  has_weights = (name: string): boolean => this.weights?.name === name;

  take_weights(name: string, bytes: ArrayBuffer): void {
    this.weights = { name, file: `/weights${name.slice(name.lastIndexOf(".")).toLowerCase()}`, bytes };
    for (const thread of [this.now, ...this.later]) {
      thread.forget(0);
      thread.stop();
    }
  }

  // A question with "weights" is asked about the file.
  private call_of(chip: string, changes: string[], question: { weights?: string }): [string, string[]] {
    const { weights, ...rest } = question;
    const values = [chip, changes.join("\n"), JSON.stringify(rest)];
    return weights && this.weights ? ["page_ask_weights", [...values, this.weights.file]] : ["page_ask", values];
  }

  // Of a chip and its changes, and for a question its answer, as JSON text. What was asked before is stopped where it took
  // longer than that already.
  ask(chip: string, changes: string[], question: object, patience_ms: number): Promise<string | null> {
    this.now.forget(patience_ms);
    return this.now.call(...this.call_of(chip, changes, question));
  }

  about = (name: "page_numbers" | "page_chip_file", chip: string, changes: string[]): Promise<string | null> =>
    this.now.call(name, [chip, changes.join("\n")], true);
  chips = (): Promise<string | null> => this.later[0].call("page_chips", []);

  ask_later = (lane: number, chip: string, changes: string[], question: object): Promise<string | null> =>
    this.later[lane % this.later.length].call(...this.call_of(chip, changes, question));
  forget_later = (): void => this.later.forEach((thread) => thread.forget(60));

  // Of a text, whatever it is, and never dropped.
  ask_text = (chip: string, changes: string[], question: string): Promise<string | null> =>
    this.aside.call("page_ask", [chip, changes.join("\n"), question]);
}
