// SPDX-License-Identifier: Apache-2.0
// Inference by a plan of each family, for a GPU of so many SMs: from the images to the categories, without the host in
// between where the plan does not ask for it. But for staged ones, a layout must live until its program is loaded.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"
#include "model/feed_forward/plan/unstructured_layout.hpp"
#include "model/feed_forward/staged/layout.hpp"

#include <string>

namespace onchip {

// What a tile's kernel is compiled from, and compiles to; the number of output blocks in flight is the largest that
// does not spill. Needs no GPU. Throws InputError for architectures before sm_90.
struct BlocksKernel {
  int ahead = 0;
  CompileRequest request;
  ResourceReport resources;
};
BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture);

// Throws InputError for networks whose bounds are not monotone.
void check_monotone(const BlocksLayout& layout);

// Throws InputError as check_monotone().
InferenceProgram blocks_program(const BlocksLayout& layout, const BlocksPlan& plan, int most_images, int sms,
                                const std::string& architecture);

// words: of a feature, with wide_groups if there are two.
CompileRequest streamed_request(const BlocksGeometry& geometry, const StreamedPlan& plan, int words, bool settles,
                                const std::string& architecture);

// Of a layout of streamed_geometry(). Throws InputError as check_monotone(), for architectures before sm_90, and for a
// batch group of more SMs.
InferenceProgram streamed_program(const BlocksLayout& layout, const StreamedPlan& plan, int most_images, int sms,
                                  const std::string& architecture);

// has_linear: some layer is (SparseLayer).
CompileRequest unstructured_request(const UnstructuredGeometry& geometry, Precision weight_type,
                                    const std::string& architecture, bool has_linear = false);

struct UnstructuredOptions {
  bool takes_lists = false;     // of inputs, with any values; else bitmaps
  bool keeps_features = false;  // of the images alive after the last layer, instead of their categories
};

InferenceProgram unstructured_program(const UnstructuredLayout& layout, int most_images, int sms,
                                      const std::string& architecture, const UnstructuredOptions& options = {});

CompileRequest staged_request(const StagedPlan& plan, const std::string& architecture, bool has_linear = false);

// feed_forward_staged.cu, layer by layer.
InferenceProgram staged_program(const StagedLayout& layout, int most_images, int sms, const std::string& architecture);

}  // namespace onchip
