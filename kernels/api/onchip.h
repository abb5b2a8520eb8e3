/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse networks that stay on the chip, for C and everything that calls C (libonchip.so).
 *
 *   chip        what the hardware offers: onchip_chip_create("h200", ...)
 *   matrix      recurrent weights with their zeros: from an array, compressed rows or a file
 *   fit         does the network fit on the chip, what is the bottleneck, how long does a step take
 *   question    all that the commands answer, as JSON
 *   table       the rows of a sweep as columns, for Arrow's readers
 *   program     the plan, compiled for an architecture, and the weights as it loads them
 *   recurrence  a program in a workspace that the caller allocated: runs on the caller's streams
 *   training    forward and all gradients of one dense LSTM or GRU layer, in the caller's memory
 *   attention   scores of MLP attention and their gradients, in the caller's memory
 *   stream      a kernel that stays on the GPU and answers one step of a stack at a time, from host memory
 *   inference   a sparse feed-forward network that runs images, on a GPU or by the CPU reference
 *
 * Only a recurrence, training, attention and a stream need a GPU; a program lies in host memory. A library that was
 * built without CUDA has none of these five.
 *
 * Conventions
 *   - Every function returns a status, but for those that destroy.
 *   - What went wrong is written to `error`, which belongs to the caller and may be null.
 *   - No state outside the handles, but for the kernels of training and attention, which stay loaded. Several threads
 *     may read a chip, a matrix or a program at once, or run training or attention; else a handle is used by one thread
 *     at a time.
 *   - Handles are independent of what they were made from: destroy them in any order. Null is destroyed silently.
 *   - A struct begins with its size, as the caller knows it: `onchip_fit fit = {sizeof fit};`. The rest is zero or set.
 *   - Device memory is the caller's, but for the kernels' code, which onchip_recurrence_create loads, and what an
 *     inference takes while it runs.
 *   - Compiled kernels are cached on disk: $ONCHIP_CACHE, else ~/.cache/onchip.
 *   - "The type of the state" is that of the precision: fp16, bf16, fp32; fp16 where the weights are fp8.
 *
 * The network is one direction of one layer: h' = cell(W h + recurrent bias, x + input bias), where x = W_ih input is
 * the caller's dense product. Gates stand in PyTorch's order: i f g o of the LSTM; r z n of the GRU, whose reset gate
 * multiplies after the product. */
#ifndef ONCHIP_H
#define ONCHIP_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ONCHIP_API __attribute__((visibility("default")))
#else
#define ONCHIP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header; another number than onchip_api_version() returns means that header and library do not belong
 * together. */
#define ONCHIP_API_VERSION 5
ONCHIP_API int32_t onchip_api_version(void);

typedef int32_t onchip_status;
enum {
  ONCHIP_OK = 0,
  ONCHIP_INVALID = 1,       /* an argument or a file is not what it should be */
  ONCHIP_DOES_NOT_FIT = 2,  /* the network has no kernel on this chip; the error says what there is too little of */
  ONCHIP_CUDA = 3,          /* CUDA or its compiler refused; no device */
  ONCHIP_OUT_OF_MEMORY = 4, /* of the host */
  ONCHIP_INTERNAL = 5       /* a bug */
};

/* One line, ended by a zero; cut if it is longer. Empty after success. */
typedef struct onchip_error {
  char message[1024];
} onchip_error;

typedef struct onchip_chip onchip_chip;
typedef struct onchip_matrix onchip_matrix;
typedef struct onchip_program onchip_program;
typedef struct onchip_recurrence onchip_recurrence;
typedef struct onchip_training onchip_training;
typedef struct onchip_inference onchip_inference;
typedef struct onchip_stream onchip_stream;
typedef struct CUstream_st* onchip_cuda_stream; /* a cudaStream_t; null: the default stream */

/* ---- chip -------------------------------------------------------------------------------------------------------- */

/* `name_or_file`: a shipped chip ("h200", "a100", "rtx4090") or the path of a chip file ("./mine.toml"). Shipped files
 * stand in the directory $ONCHIP_CHIPS, else in the installation around the library, else where it was built. */
ONCHIP_API onchip_status onchip_chip_create(const char* name_or_file, onchip_chip** chip, onchip_error* error);
/* Changes a number, as the command's --set does: "sm.count=120", "shared_memory.per_sm=+10%". */
ONCHIP_API onchip_status onchip_chip_set(onchip_chip* chip, const char* assignment, onchip_error* error);
ONCHIP_API void onchip_chip_destroy(onchip_chip* chip);

/* ---- matrix ------------------------------------------------------------------------------------------------------ */

/* All are copied; values are finite fp32 in host memory. `rows` = gates * hidden, `columns` = hidden. */

/* values: [rows, columns], row-major; zeros are pruned weights. */
ONCHIP_API onchip_status onchip_matrix_create_dense(int32_t rows, int32_t columns, const float* values,
                                                    onchip_matrix** matrix, onchip_error* error);
/* row_begin: [rows + 1], from 0; column, value: [row_begin[rows]]; columns ascend within a row. */
ONCHIP_API onchip_status onchip_matrix_create_csr(int32_t rows, int32_t columns, const int64_t* row_begin,
                                                  const int32_t* column, const float* value, onchip_matrix** matrix,
                                                  onchip_error* error);
/* A .safetensors file or the .safetensors.index.json of several (`tensor` null: the only one that can be recurrent
 * weights), a NumPy .npy file, a Matrix Market .mtx file, or a pattern of the Deep Learning Matrix Collection, .smtx;
 * gzip, xz or zstd may have compressed it. Gates stay in the order of the file. */
ONCHIP_API onchip_status onchip_matrix_create_from_file(const char* file, const char* tensor, onchip_matrix** matrix,
                                                        onchip_error* error);
/* Any of the last three may be null. */
ONCHIP_API onchip_status onchip_matrix_size(const onchip_matrix* matrix, int32_t* rows, int32_t* columns, int64_t* nnz,
                                            onchip_error* error);
ONCHIP_API void onchip_matrix_destroy(onchip_matrix* matrix);

/* ---- does it fit, and why ---------------------------------------------------------------------------------------- */

enum { ONCHIP_RELU = 0, ONCHIP_TANH = 1, ONCHIP_LSTM = 2, ONCHIP_GRU = 3 }; /* cells: 1, 1, 4 and 3 gates */
enum { ONCHIP_FP16 = 0, ONCHIP_BF16 = 1, ONCHIP_FP32 = 2, ONCHIP_FP8 = 3 }; /* precisions */
enum { ONCHIP_REGISTERS = 0, ONCHIP_SHARED_MEMORY = 1, ONCHIP_L2 = 2, ONCHIP_THREADS = 3, ONCHIP_SMS = 4 };
#define ONCHIP_RESOURCES 5
/* Where weights may lie at most; streamed: what does not fit on the SMs is read from L2 in every step. */
enum { ONCHIP_TIER_REGISTERS = 0, ONCHIP_TIER_SHARED_MEMORY = 1, ONCHIP_TIER_STREAMED = 2 };

typedef struct onchip_network {
  size_t struct_bytes; /* sizeof(onchip_network) */
  int32_t cell;
  int32_t precision;
  int32_t hidden; /* units, 1 to 262144 */
  int32_t batch;  /* samples, 1 to 64 on the chip; of dense LSTMs and GRUs in fp16 and bf16 more */
  double density; /* non-zeros of W / its elements, above 0, at most 1; not read where a matrix is given */
  int32_t tier;   /* ONCHIP_TIER_* */
} onchip_network;

typedef struct onchip_resource {
  double used, available;
  char name[16]; /* "registers" */
  char unit[32]; /* "registers per thread" */
} onchip_resource;

typedef struct onchip_fit {
  size_t struct_bytes;                         /* sizeof(onchip_fit), set before the call */
  int32_t fits;                                /* 1: all weights stay on the chip; or 0 */
  int32_t binding;                             /* the resource that binds: ONCHIP_REGISTERS, ... */
  onchip_resource resources[ONCHIP_RESOURCES]; /* indexed by ONCHIP_REGISTERS, ... */
  double streamed_share;                       /* of the stored weights' bytes, read from L2 in every step */
  double step_us, low_us, high_us, floor_us;   /* microseconds: predicted, its 95 % interval, and below every step, by
                                                  proof; 0 where it does not run, and for a floor that nobody proved */
  char why[256];                               /* one sentence */
  char plan[512];                              /* the plan, as the command prints it */
  int32_t runs;                                /* 1: it runs, as what streams weights from L2 does, too; or 0 */
  int32_t tier;                                /* where weights lie at most: ONCHIP_TIER_* */
} onchip_fit;

/* `matrix` null: as a random mask of the network's density. A network that does not fit is an answer, not an error: the
 * status is ONCHIP_OK. */
ONCHIP_API onchip_status onchip_fit_network(const onchip_chip* chip, const onchip_network* network,
                                            const onchip_matrix* matrix, onchip_fit* fit, onchip_error* error);
/* The largest number of hidden units, a multiple of `granule`, that fits with all else as in `network`, or with its
 * tier streamed runs; 0 if none does. Takes milliseconds to seconds. */
ONCHIP_API onchip_status onchip_largest_hidden(const onchip_chip* chip, const onchip_network* network, int32_t granule,
                                               int32_t* hidden, onchip_error* error);

/* ---- question ---------------------------------------------------------------------------------------------------- */

/* Any question of the commands fit, predict and what-if, with its answer: JSON, byte for byte what `onchip VERB
 * --format json` prints. model/ask/ask.hpp says what stands in a question:
 *   {"ask": "predict", "network": {"cell": "lstm", "hidden": 2304, "density": 0.1}}
 * `matrix`: null, or the weights. The answer ends with a zero; destroy it with onchip_text_destroy. */
ONCHIP_API onchip_status onchip_ask(const onchip_chip* chip, const char* question, const onchip_matrix* matrix,
                                    char** answer, onchip_error* error);
ONCHIP_API void onchip_text_destroy(char* text);

/* ---- table ------------------------------------------------------------------------------------------------------- */

/* Rows as columns, of a sweep or of the caller. */
typedef struct onchip_table onchip_table;

/* How far a sweep has come, of its rows before `where`; another thread may read it, and write `stop` to end the sweep.
 */
typedef struct onchip_progress {
  size_t struct_bytes;
  int64_t done, rows;
  int32_t stop;
} onchip_progress;

/* The rows of a sweep, as many as there are, by all cores: a question whose "ask" is "sweep" (model/ask/ask.hpp).
 * `progress` may be null. */
ONCHIP_API onchip_status onchip_table_create_sweep(const onchip_chip* chip, const char* question,
                                                   onchip_progress* progress, onchip_table** table,
                                                   onchip_error* error);
/* Of a JSON array of objects. A column is of 64-bit integers, doubles, booleans or texts, by its values; null where a
 * row has none; what is something else is text, as JSON. */
ONCHIP_API onchip_status onchip_table_create_rows(const char* rows, onchip_table** table, onchip_error* error);
ONCHIP_API onchip_status onchip_table_rows(const onchip_table* table, int64_t* rows, onchip_error* error);
/* A JSON array of objects; destroy it with onchip_text_destroy. */
ONCHIP_API onchip_status onchip_table_text(const onchip_table* table, char** rows, onchip_error* error);
/* Arrow's C stream interface: record batches, without a copy. The stream outlives the table; release it. */
struct ArrowArrayStream;
ONCHIP_API onchip_status onchip_table_stream(const onchip_table* table, struct ArrowArrayStream* stream,
                                             onchip_error* error);
ONCHIP_API void onchip_table_destroy(onchip_table* table);
/* The destructor of a Python capsule "arrow_array_stream" whose structure malloc() gave: releases what nobody took. */
ONCHIP_API void onchip_capsule_destroy(void* capsule);

/* ---- program ----------------------------------------------------------------------------------------------------- */

/* Plans for the chip, compiles and encodes; takes a tenth of a second to seconds. Weights are rounded to the precision.
 *   input_bias, recurrent_bias  host, fp32, [gates * hidden], or null: zeros
 *   architecture                "sm_90"; null: that of the current device. */
ONCHIP_API onchip_status onchip_program_create(const onchip_chip* chip, const onchip_network* network,
                                               const onchip_matrix* matrix, const float* input_bias,
                                               const float* recurrent_bias, const char* architecture,
                                               onchip_program** program, onchip_error* error);
/* Bytes of device memory that a recurrence needs for sequences of `most_steps`: weights, and the states and inputs of
 * so many steps, the latter at most 256 MiB. Longer sequences run in several launches. */
ONCHIP_API onchip_status onchip_program_workspace_bytes(const onchip_program* program, int64_t most_steps,
                                                        size_t* bytes, onchip_error* error);
ONCHIP_API onchip_status onchip_program_fit(const onchip_program* program, onchip_fit* fit, onchip_error* error);
/* Registers of a thread, as the compiler reports them. */
ONCHIP_API onchip_status onchip_program_registers(const onchip_program* program, int32_t* registers,
                                                  onchip_error* error);
ONCHIP_API void onchip_program_destroy(onchip_program* program);

/* ---- recurrence -------------------------------------------------------------------------------------------------- */

#define ONCHIP_WORKSPACE_ALIGNMENT 256

/* Loads the kernels into the current device, and fills the workspace on `stream`, which must not be capturing.
 * `workspace`: device memory, aligned to 256 bytes, of at least onchip_program_workspace_bytes(program, most_steps). It
 * is the caller's, must outlive every run, and serves one recurrence. */
ONCHIP_API onchip_status onchip_recurrence_create(const onchip_program* program, void* workspace,
                                                  size_t workspace_bytes, int64_t most_steps, onchip_cuda_stream stream,
                                                  onchip_recurrence** recurrence, onchip_error* error);
/* Does not wait: what is enqueued, or captured in a graph, must be done. */
ONCHIP_API void onchip_recurrence_destroy(onchip_recurrence* recurrence);

/* Pointers to device memory, in the type of the state, row-major. Null: zeros, or not wanted. Set all that is not used
 * to zero: `onchip_sequences s = {sizeof s};`. */
typedef struct onchip_sequences {
  size_t struct_bytes;      /* sizeof(onchip_sequences) */
  int64_t steps;            /* 1 or more */
  const void* input;        /* [steps, batch, gates * hidden]: W_ih input, without biases */
  const void* initial;      /* [batch, hidden] */
  const void* initial_cell; /* [batch, hidden]; LSTM only */
  void* output;             /* [steps, batch, hidden] */
  void* final_state;        /* [batch, hidden]: of each sample's last step; may be `initial` */
  void* final_cell;         /* [batch, hidden]; LSTM only; may be `initial_cell` */
  int64_t input_stride;     /* elements from one sample to the next; 0: gates * hidden */
  int64_t output_stride;    /* likewise; 0: hidden */
  const int32_t* lengths;   /* host, [batch]: steps of each sample, 1 to `steps`; read before the call returns. Output
                               beyond is zero. Null: all */
  int32_t backward;         /* 1: each sample from its last step to its first; the final state is that of step 0 */
} onchip_sequences;

/* Enqueues a batch of sequences. Waits for nothing and allocates no device memory: it may be captured in a graph, which
 * keeps the pointers and the lengths. One run at a time per recurrence. The kernel takes all of the plan's SMs at once:
 * what else runs on the device delays its start. */
ONCHIP_API onchip_status onchip_recurrence_enqueue(onchip_recurrence* recurrence, onchip_cuda_stream stream,
                                                   const onchip_sequences* sequences, onchip_error* error);

/* One step, with the state kept in the caller's memory: input [batch, gates * hidden]; state [batch, hidden] and, of an
 * LSTM, cell [batch, hidden] (else null) are read and replaced. The same as a sequence of one step, and costs as much:
 * a launch loads all weights from L2 or DRAM into the SMs, and small kernels translate input and state. Collect steps
 * where latency allows it; capture the step in a graph where it does not. An LSTM's cell and a GRU's state, which a
 * sequence carries from step to step in fp32, are rounded to the type of the state after each such step. */
ONCHIP_API onchip_status onchip_recurrence_step(onchip_recurrence* recurrence, onchip_cuda_stream stream,
                                                const void* input, void* state, void* cell, onchip_error* error);

/* Waits for the stream; not to be captured. ONCHIP_CUDA if any block gave up waiting for another since the last call,
 * in whatever was enqueued or replayed by a graph: from then until this call, all that is written is NaN. */
ONCHIP_API onchip_status onchip_recurrence_check(const onchip_recurrence* recurrence, onchip_cuda_stream stream,
                                                 onchip_error* error);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* What forward keeps for backward beside y: all gates; or of an LSTM c now and then, from which backward computes the
 * gates of some steps at a time anew; or, of a stack of `layers` and not of each, the state now and then, from which
 * backward replays the forward of all layers for some steps at a time, and y of the last. None, of a stack, too: no
 * backward follows, and as many layers are on the chip at once as is fastest. */
enum { ONCHIP_STASH_GATES = 0, ONCHIP_STASH_CELLS = 1, ONCHIP_STASH_REPLAY = 2, ONCHIP_STASH_NONE = 3 };

typedef struct onchip_layer {
  size_t struct_bytes; /* sizeof(onchip_layer) */
  int32_t cell;        /* ONCHIP_LSTM or ONCHIP_GRU */
  int32_t precision;   /* ONCHIP_FP16 or ONCHIP_BF16 */
  int32_t input;       /* elements of a sample's input in a step */
  int32_t hidden;      /* units */
  int32_t batch;       /* samples */
  int64_t steps;
  int32_t directions;   /* 1, or 2: a second one from each sample's last position to its first */
  int32_t length_bytes; /* 4 or 8, of an element of `lengths`; 0: all samples have all steps */
  int32_t stash;        /* ONCHIP_STASH_...; with a mask, the gates; replay and none without lengths and a second
                         * direction */
  int32_t chunk;        /* without a stash of gates, steps at a time, at most; 0: as usual */
  int32_t layers;       /* with a stash of replay or none, one on the other; those behind the first take `hidden`
                         * elements; else 1, or 0 */
  int32_t is_reverse;   /* 1: every layer goes from the last position to the first; with a stash of none. Else 0 */
} onchip_layer;

/* Plans for the current device, compiles and loads, which takes up to seconds, with a warm cache milliseconds; not
 * while a stream is captured. ONCHIP_DOES_NOT_FIT where no plan keeps the weights on the chip; where a library is
 * faster, it is created all the same. */
ONCHIP_API onchip_status onchip_training_create(const onchip_layer* layer, onchip_training** training,
                                                onchip_error* error);
/* Why cuDNN is priced lower at this size than these kernels, in one line, or an empty one if it is not: for forward and
 * backward, or, with is_inference 1, for forward alone where nobody wants gradients. Destroy it with
 * onchip_text_destroy. Compiles nothing. ONCHIP_DOES_NOT_FIT as above. */
ONCHIP_API onchip_status onchip_training_library(const onchip_layer* layer, int32_t is_inference, char** why,
                                                 onchip_error* error);
/* What a forward that no backward follows is priced, in us: by these kernels, infinite where onchip_training_library
 * says why cuDNN is chosen; and by a program for each direction (onchip_program_create) whose step takes `step_us`,
 * with its input product and with what brings sequences into the program's order. Compiles nothing. ONCHIP_DOES_NOT_FIT
 * as above. */
ONCHIP_API onchip_status onchip_training_inference_us(const onchip_layer* layer, double step_us, double* layer_us,
                                                      double* program_us, onchip_error* error);
/* As onchip_training_create, of an LSTM with a mask that stays: w_hh has weights where the matrix has elements, [4 *
 * hidden, hidden], whatever their values. Forward and backward read w_hh only there, keep that on the chip, and dw_hh
 * is zero elsewhere. Takes some device memory of its own, until it is destroyed: its graphs may not outlive it. */
ONCHIP_API onchip_status onchip_training_create_sparse(const onchip_layer* layer, const onchip_matrix* mask,
                                                       onchip_training** training, onchip_error* error);
/* Bytes of device memory: what a forward or a backward needs while it runs, aligned to ONCHIP_WORKSPACE_ALIGNMENT, and
 * what forward keeps of a direction, or of all layers that are replayed, for backward beside y and cells. Either may be
 * null. */
ONCHIP_API onchip_status onchip_training_bytes(const onchip_training* training, size_t* workspace, size_t* kept,
                                               onchip_error* error);
/* Bytes of the workspace of a forward that no backward follows: its kept and cells are null. Sequences that are long go
 * over in chunks of steps, so that this does not grow with them but where there are lengths. 0: with a mask, forward
 * always keeps. */
ONCHIP_API onchip_status onchip_training_forward_bytes(const onchip_training* training, size_t* workspace,
                                                       onchip_error* error);
/* Bytes of device memory of an iteration of so many such layers, one on the other, whatever layer->layers; the first
 * takes layer->input elements. cell_layers: of a stash of gates, so many of the first layers have one of cells. stash:
 * kept from forward to backward, every y included. peak: the most at once beside x and the weights.
 * Compiles nothing. Any may be null. ONCHIP_DOES_NOT_FIT as onchip_training_create. */
ONCHIP_API onchip_status onchip_training_memory(const onchip_layer* layer, int32_t layers, int32_t cell_layers,
                                                size_t* stash, size_t* peak, onchip_error* error);
/* What such layers should keep for an iteration to take at most so many bytes, as peak of onchip_training_memory counts
 * them, in the least time that is predicted; where nothing takes so little, what takes the least: peak may be more.
 * layer->stash: ONCHIP_STASH_REPLAY where that is a choice, too. Compiles nothing. */
ONCHIP_API onchip_status onchip_training_within(const onchip_layer* layer, int32_t layers, size_t bytes, int32_t* stash,
                                                int32_t* cell_layers, int32_t* chunk, size_t* peak,
                                                onchip_error* error);
/* The plan in one line; destroy it with onchip_text_destroy. */
ONCHIP_API onchip_status onchip_training_plan(const onchip_training* training, char** plan, onchip_error* error);
/* Does not wait: a graph that has captured its work may run on. */
ONCHIP_API void onchip_training_destroy(onchip_training* training);

/* Pointers to device memory, in the layer's type, row-major as PyTorch has them (batch_first=False); gates: 4 of an
 * LSTM, 3 of a GRU. Null: zeros, or not wanted, where it says so, and of a GRU what is of c; set all that is not used
 * to zero. Arrays of two directions follow each other; what is not a direction's own is the same in both. With a stash
 * of replay or none, arrays of each layer do: x, dx and kept are the first's, y and dy the last's, null in others; of a
 * replay dw_ih and dw_hh are in fp32, [gates, hidden, input or hidden], hidden and columns up to the next multiple
 * of 8.
 *
 * With lengths, `rows` says how x, y and their gradients lie. 0: padded, as without; what x and dy have beyond a
 * sample's length is not read. Else packed, as PyTorch's PackedSequence has its data: in the place of [steps, batch]
 * stand so many rows, of each step those samples that have it, the longest first; `lengths`, whose sum they are, and
 * all arrays of samples are in that order, too. */
typedef struct onchip_training_arrays {
  size_t struct_bytes;     /* sizeof(onchip_training_arrays) */
  void* workspace;         /* of onchip_training_bytes, or onchip_training_forward_bytes, for both directions */
  const void* lengths;     /* [batch], integers from 1 to steps; null if length_bytes is 0 */
  const void* x;           /* [steps, batch, input] */
  const void *w_ih, *w_hh; /* [gates * hidden, input], [gates * hidden, hidden] */
  const void *b_ih, *b_hh; /* [gates * hidden], or null; forward reads them, and backward with a stash of cells */
  const void *h0, *c0;   /* [batch, hidden], or null; backward reads h0, too, and with lengths or a stash of cells c0 */
  void* y;               /* every h, [steps, batch, directions * hidden], of the second direction its first element;
                          * forward writes, zeros beyond lengths, and backward reads */
  void *hn, *cn;         /* of a sample's last step, [batch, hidden], or null; forward writes */
  void* cells;           /* [steps + 1, batch, hidden], with lengths [steps, batch, hidden], of packed rows
                          * [rows, hidden]; forward writes, all of it, and backward reads; null with kept, and of a
                          * stash of cells */
  void* kept;            /* of onchip_training_bytes, of packed rows [rows, 4, hidden], hidden without a mask up to
                          * the next multiple of 8: forward writes, all of it, and backward reads, and overwrites a
                          * stash of gates; null: no backward follows, or 0 bytes */
  const void* dy;        /* gradient of y, laid out as y */
  const void *dhn, *dcn; /* gradients of hn and cn: [batch, hidden], or null */
  void* dx;              /* gradients, as what they are of; any of them may be null */
  void *dw_ih, *dw_hh;
  void* db; /* of b_ih */
  void *dh0, *dc0;
  void* db_hh;  /* of an LSTM the same as db */
  int64_t rows; /* with lengths, packed ones; 0: padded */
} onchip_training_arrays;

/* Each enqueues one half of the training step; `arrays`: one for each direction, or layer that is replayed. Waits for
 * nothing and allocates nothing: it may be captured in a graph, which keeps the pointers. Any number of halves may run
 * at once, on any streams and from any threads, each in its own workspace, as long as the SMs hold them: what else runs
 * delays their start. Of a half that gives up waiting, or finds a length that is none, all results are NaN, and the
 * next call on this device returns ONCHIP_CUDA, once, and enqueues nothing. */
ONCHIP_API onchip_status onchip_training_forward(const onchip_training* training, onchip_cuda_stream stream,
                                                 const onchip_training_arrays* arrays, onchip_error* error);
ONCHIP_API onchip_status onchip_training_backward(const onchip_training* training, onchip_cuda_stream stream,
                                                  const onchip_training_arrays* arrays, onchip_error* error);
/* Waits for the stream; not to be captured. ONCHIP_CUDA as above. */
ONCHIP_API onchip_status onchip_training_check(const onchip_training* training, onchip_cuda_stream stream,
                                               onchip_error* error);

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Scores of MLP attention (additive: Bahdanau, Cho and Bengio, arXiv 1409.0473) and their gradients:
 *
 *   scores[b, t, s] = sum over h of v[h] * tanh(q[b, t, h] + k[b, s, h])
 *
 * tanh is computed anew in backward; [batch, queries, keys, hidden] is never stored. It is good to 2e-6, sums are in
 * fp32. Pointers are to device memory, in the precision, row-major, aligned to an element; 16 bytes are read at once
 * where the rows of q and k begin and end at multiples of 16 bytes. The struct may go when a call returns. */
typedef struct onchip_attention {
  size_t struct_bytes;                  /* sizeof(onchip_attention) */
  int32_t precision;                    /* ONCHIP_FP16, ONCHIP_BF16 or ONCHIP_FP32 */
  int32_t batch, queries, keys, hidden; /* 1 or more each */
  const void* q;                        /* [batch, queries, hidden] */
  const void* k;                        /* [batch, keys, hidden] */
  const void* v;                        /* [hidden] */
  void* scores;                         /* [batch, queries, keys]; forward writes */
  const void* dscores;                  /* gradients of scores; backward reads this, q, k and v */
  void *dq, *dk, *dv;                   /* gradients, as what they are of; backward writes; null: not wanted */
  void* workspace; /* of backward, of onchip_attention_workspace_bytes, aligned to 4 bytes; free when it is done */
} onchip_attention;

/* Of device memory, by the sizes: 4 * batch * hidden for up to 64 queries, else (1 + keys) times that, and, of small
 * batches, some of these. Pointers are not read. */
ONCHIP_API onchip_status onchip_attention_workspace_bytes(const onchip_attention* attention, size_t* bytes,
                                                          onchip_error* error);
/* Each enqueues a pass. The first call of a device and a precision compiles and loads, which takes a second or two;
 * then no other sizes do. Waits for nothing and allocates nothing: it may be captured in a graph, which keeps the
 * pointers. The same bits come out every time. ONCHIP_INVALID for sizes that take more blocks than a launch has. */
ONCHIP_API onchip_status onchip_attention_forward(const onchip_attention* attention, onchip_cuda_stream stream,
                                                  onchip_error* error);
ONCHIP_API onchip_status onchip_attention_backward(const onchip_attention* attention, onchip_cuda_stream stream,
                                                   onchip_error* error);

/* ---- stream ------------------------------------------------------------------------------------------------------ */

/* A kernel that stays on the current device with all weights of a stack in registers, and does a step for each request.
 * Requests and answers are words in pinned host memory; h and c stay on the device. The kernel takes the SMs that its
 * plan has, and leaves the others to other kernels. It ends, and keeps all states, when no request has come for
 * `idle_us`, so that whoever waits for the device then waits no longer; the next request starts it again. It also ends
 * when the process has not lived for 50 ms. */
typedef struct onchip_stack {
  size_t struct_bytes; /* sizeof(onchip_stack) */
  int32_t cell;        /* ONCHIP_LSTM or ONCHIP_GRU */
  int32_t precision;   /* ONCHIP_FP16 or ONCHIP_BF16 */
  int32_t layers;      /* 1 to 16, one on the other */
  int32_t input;       /* elements of a sample's input */
  int32_t hidden;      /* units of each layer */
  int32_t batch;       /* samples of a request, 1 to 8 */
  int32_t streams;     /* 1 to 16, with the same weights; each has mailboxes, states and SMs of its own */
  int32_t idle_us;     /* 0: 10000 */
  int32_t answer_us;   /* that a call waits for an answer at most; 0: 1000000 */
} onchip_stack;

/* Of a layer, in device memory, in the stack's precision, as PyTorch has them: [gates * hidden, input or hidden],
 * [gates * hidden, hidden], [gates * hidden]. Null biases are zeros. */
typedef struct onchip_stack_weights {
  const void *w_ih, *w_hh, *b_ih, *b_hh;
} onchip_stack_weights;

#define ONCHIP_STREAM_REQUESTS 8 /* of a stream, that may wait for their answers */

/* Compiles, allocates, and copies `weights`, of `layers` layers; states are zero. ONCHIP_DOES_NOT_FIT where registers
 * do not hold the weights. */
ONCHIP_API onchip_status onchip_stream_create(const onchip_stack* stack, const onchip_stack_weights* weights,
                                              onchip_stream** stream, onchip_error* error);
/* A step of the stream `index`, and h of its last layer. `input` [batch, input] and `output` [batch, hidden] are in
 * host memory, in the precision. ONCHIP_CUDA if no answer comes in answer_us. */
ONCHIP_API onchip_status onchip_stream_step(onchip_stream* stream, int32_t index, const void* input, void* output,
                                            onchip_error* error);
/* The two halves of a step. Answers come in the order of the requests, of which ONCHIP_STREAM_REQUESTS may wait. */
ONCHIP_API onchip_status onchip_stream_send(onchip_stream* stream, int32_t index, const void* input,
                                            onchip_error* error);
ONCHIP_API onchip_status onchip_stream_receive(onchip_stream* stream, int32_t index, void* output, onchip_error* error);
/* The next step begins with these states, [layers, batch, hidden] in device memory, in the precision; null: zeros. `c`
 * is an LSTM's. No request may wait. */
ONCHIP_API onchip_status onchip_stream_reset(onchip_stream* stream, int32_t index, const void* h, const void* c,
                                             onchip_error* error);
/* Steps from now on have these weights, of all streams; states and the kernel stay. No request may wait. */
ONCHIP_API onchip_status onchip_stream_set_weights(onchip_stream* stream, const onchip_stack_weights* weights,
                                                   onchip_error* error);
/* The plan and its predicted time of a request, in one line; destroy it with onchip_text_destroy. */
ONCHIP_API onchip_status onchip_stream_plan(const onchip_stream* stream, char** plan, onchip_error* error);
/* Ends the kernel at once. */
ONCHIP_API void onchip_stream_destroy(onchip_stream* stream);

/* ---- inference --------------------------------------------------------------------------------------------------- */

enum { ONCHIP_ENGINE_AUTOMATIC = 0, ONCHIP_ENGINE_GPU = 1, ONCHIP_ENGINE_REFERENCE = 2 };

/* A sparse feed-forward network, y = min(max(W x + b, 0), clip) in every layer, but W x + b in the last where the text
 * has "logits=yes".
 *   network  one line of text: "spdnn:1024x120", "random:neurons=1024,layers=8", or files ("model.safetensors");
 *            docs/feed-forward.md
 *   engine   ONCHIP_ENGINE_GPU: kernels, planned for the current device, packed and compiled here, which takes up to
 *            seconds; ONCHIP_DOES_NOT_FIT where none can run it. ONCHIP_ENGINE_REFERENCE: fp32 on all cores.
 *            ONCHIP_ENGINE_AUTOMATIC: the GPU where there is one. */
ONCHIP_API onchip_status onchip_inference_create(const char* network, int32_t engine, onchip_inference** inference,
                                                 onchip_error* error);
ONCHIP_API onchip_status onchip_inference_layers(const onchip_inference* inference, int32_t* layers,
                                                 onchip_error* error);
/* Of the features after so many layers; 0: of the images. */
ONCHIP_API onchip_status onchip_inference_neurons(const onchip_inference* inference, int32_t layers, int32_t* neurons,
                                                  onchip_error* error);
/* The plan in one line, the one that `predict --network` prices without other options: the best for 60,000 synthetic
 * digits ("digits:60000"). Or "reference". Destroy it with onchip_text_destroy. */
ONCHIP_API onchip_status onchip_inference_plan(const onchip_inference* inference, char** plan, onchip_error* error);

/* Lists of what is not zero in each image; host memory, read before the call returns. */
typedef struct onchip_images {
  size_t struct_bytes;   /* sizeof(onchip_images) */
  int32_t count;         /* images, 0 or more */
  const int64_t* begin;  /* [count + 1], from 0 */
  const int32_t* neuron; /* [begin[count]], ascending within an image, below onchip_inference_neurons(.., 0, ..) */
  const float* value;    /* [begin[count]]; null: all are 1 */
} onchip_images;

/* The images with a feature that is not zero after the last layer: their numbers from 0, ascending. Any number of
 * images: on a GPU they go in batches as large as its free memory allows.
 *   categories  [images->count], of which the first *category_count are written; host */
ONCHIP_API onchip_status onchip_inference_categories(onchip_inference* inference, const onchip_images* images,
                                                     int32_t* categories, int32_t* category_count, onchip_error* error);
/* The features after the first `layers` layers, 0 to all: bit by bit those of the reference, but for the bits of NaN;
 * zeros for an image without a feature.
 *   features  [images->count, onchip_inference_neurons(.., layers, ..)], host */
ONCHIP_API onchip_status onchip_inference_features(onchip_inference* inference, const onchip_images* images,
                                                   int32_t layers, float* features, onchip_error* error);
ONCHIP_API void onchip_inference_destroy(onchip_inference* inference);

#ifdef __cplusplus
}
#endif

#endif
