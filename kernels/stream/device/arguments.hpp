// SPDX-License-Identifier: Apache-2.0
// What a kernel of streams is given (stream.cu).
#pragma once

namespace onchip {

// A word of a mailbox or a ring: an element's bits, above them what kind of step it is of, and the lowest bits of the
// step's number. The data is its own flag.
constexpr int kStepBits = 14;
constexpr unsigned kStepMask = ((1u << kStepBits) - 1) << 16;
enum StreamCommand : unsigned {
  kStep,
  kReset,   // h and c become the initial ones
  kReload,  // h and c stay; before the next step weights and biases are read anew
  kKeep     // h and c stay
};

// In pinned memory of the host.
struct StreamControl {
  alignas(64) unsigned beat;   // changes while the host lives
  unsigned closes;             // 1: the kernel ends at once
  alignas(64) unsigned ended;  // the number of the launch, behind its end
  unsigned next;               // the step that was not done
};

struct StreamLayer {
  const void *w_ih, *w_hh, *b_ih, *b_hh;  // as PyTorch has them; null biases are zeros
};

// Items are four words: four elements of a sample. `words`: [elements / 4][kSamples][4], rounded up.
struct StreamArguments {
  StreamLayer layers[16];
  const unsigned* requests;            // host, [streams][kSlots] words of an input
  unsigned* answers;                   // host, [streams][kSlots][batch * kHidden]
  StreamControl* control;              // host, [streams]
  unsigned* inputs;                    // as requests
  unsigned* states;                    // [streams][layers][kSlots] words of a state
  float* carries;                      // [streams][layers][batch][kHidden]: c, or h of a GRU
  const void *initial, *initial_cell;  // of a reset, likewise, in kPrecision: h, and c or of a GRU h
  unsigned* ends;                      // [streams]: the step that is not done; ~0 before that is known
  unsigned* parks;                     // 1: no stream has had a request for idle_ns
  unsigned long long* seen;            // [streams]: when the last request was, ns
  unsigned first[16];                  // the step that a launch begins with; from 1 on
  unsigned launch;                     // its number
  unsigned idle_ns, beat_ns;           // without requests, and without beats, until the kernel ends
};

}  // namespace onchip
