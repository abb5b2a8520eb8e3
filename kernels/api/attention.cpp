// SPDX-License-Identifier: Apache-2.0
// The C API's MLP attention.
#include "kernels/attention/attention.hpp"
#include "kernels/api/cuda_errors.hpp"

#include <algorithm>

using namespace onchip;

static AttentionArguments arguments_of(const onchip_attention* given) {
  require_struct(given, "attention");
  require_range("precision", given->precision, ONCHIP_FP16, ONCHIP_FP32);
  constexpr std::int32_t kMost = 1 << 30;
  require_range("batch", given->batch, 1, kMost);
  require_range("queries", given->queries, 1, kMost);
  require_range("keys", given->keys, 1, kMost);
  require_range("hidden", given->hidden, 1, kMost);
  const double queries = given->queries, keys = given->keys, hidden = given->hidden;
  if (given->batch * std::max({queries * hidden, keys * hidden, queries * keys}) > 0x1p48) {
    throw InputError("an array of these sizes has more than 2^48 elements");
  }
  return {.queries = given->q,
          .keys = given->k,
          .v = given->v,
          .scores = given->scores,
          .score_gradients = given->dscores,
          .query_gradients = given->dq,
          .key_gradients = given->dk,
          .v_gradient = given->dv,
          .partials = static_cast<float*>(given->workspace),
          .batch = given->batch,
          .query_count = given->queries,
          .key_count = given->keys,
          .hidden = given->hidden,
          .query_groups = 0,
          .splits = 0,
          .has_whole_words = 0};
}

static onchip_status enqueue(const onchip_attention* given, AttentionPass pass, onchip_cuda_stream stream,
                             onchip_error* error) {
  return guarded_cuda(error, [&] {
    const AttentionArguments a = arguments_of(given);
    require(a.queries, "q");
    require(a.keys, "k");
    require(a.v, "v");
    if (pass == AttentionPass::forward) {
      require(a.scores, "scores");
    } else {
      require(a.score_gradients, "dscores");
      require(a.partials, "workspace");
    }
    enqueue_attention(a, static_cast<Precision>(given->precision), pass, stream);
  });
}

onchip_status onchip_attention_workspace_bytes(const onchip_attention* attention, std::size_t* bytes,
                                               onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(bytes, "bytes");
    *bytes = attention_workspace_bytes(arguments_of(attention));
  });
}

onchip_status onchip_attention_forward(const onchip_attention* attention, onchip_cuda_stream stream,
                                       onchip_error* error) {
  return enqueue(attention, AttentionPass::forward, stream, error);
}

onchip_status onchip_attention_backward(const onchip_attention* attention, onchip_cuda_stream stream,
                                        onchip_error* error) {
  return enqueue(attention, AttentionPass::backward, stream, error);
}
