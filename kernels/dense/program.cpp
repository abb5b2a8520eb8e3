// SPDX-License-Identifier: Apache-2.0
#include "kernels/dense/program.hpp"

#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/dense/fragments.hpp"

namespace onchip {

CompileRequest compile_request(const DenseGeometry& geometry, const std::string& architecture, Work work) {
  CompileRequest request{DensePlan::kName, kDensePersistentSource, architecture, state_defines(geometry)};
  Defines& defines = request.defines;
  define_fields(defines, static_cast<const DensePlan&>(geometry));
  define(defines, "ragged", geometry.storage != Storage::bitmap && geometry.has_part_tile && geometry.has_uneven_spans);
  define_regions(defines, geometry.memory, kDenseRegionNames);
  define_work(defines, work);
  return request;
}

CompileRequest compile_order_request(const DenseGeometry& geometry, const std::string& architecture) {
  CompileRequest request{"state_order", kStateOrderSource, architecture, state_defines(geometry)};
  define(request.defines, "line_words", geometry.line_words);
  define(request.defines, "caller_batch", geometry.network.batch);
  define(request.defines, "batch_groups", geometry.batch_groups);
  define(request.defines, "storage", static_cast<int>(geometry.storage));
  define(request.defines, "state_in_spans", 1);
  return request;
}

LaunchShape launch_shape(const DenseGeometry& geometry) {
  return {.kernel = DensePlan::kName,
          .blocks = geometry.blocks,
          .threads = geometry.block_threads(),
          .shared_bytes = geometry.shared_bytes(),
          .exchange = geometry.exchange,
          .cluster_blocks = geometry.exchange == ExchangeProtocol::cluster ? geometry.sms : 0,
          .recorded_sms = geometry.sms,  // of the first batch group
          .recorded_warps = geometry.warps()};
}

std::int64_t state_element(const DenseGeometry& geometry, int place, int sample) {
  const std::int64_t group = geometry.state_stride / geometry.batch_groups / info(geometry.network.precision).bytes;
  const std::int64_t in_group = std::int64_t{place / kSpanUnits} * geometry.group_batch + sample % geometry.group_batch;
  return sample / geometry.group_batch * group + in_l2(in_group * kSpanUnits + place_in_span(geometry.storage, place),
                                                       geometry.network.precision, geometry.line_words);
}

CaptureSize capture_size(const DenseGeometry&) {
  throw InputError("a plan of " + std::string(DensePlan::kName) + " cannot be captured");
}

}  // namespace onchip
