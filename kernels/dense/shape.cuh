// SPDX-License-Identifier: Apache-2.0
// The shape of the dense persistent kernel.
#pragma once

#include "kernels/dense/spans.cuh"

constexpr bool kExchangeOnly = ONCHIP_EXCHANGE_ONLY;  // no products: what the exchange of the state alone takes

// A thread finishes two units of a cell without gates, or one unit of a gated cell (combine.cuh).
constexpr int kThreadUnits = kGates == 1 ? 2 : 1;
constexpr int kThreadRows = kThreadUnits * kGates;
