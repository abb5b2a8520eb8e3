/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONCHIP_TESTS_C_CALLER_H
#define ONCHIP_TESTS_C_CALLER_H

#include "kernels/api/onchip.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An LSTM of fp16, batch 4; the status of the first call that fails. */
int fits_in_c(const char* chip_name, int hidden, double density, onchip_fit* fit, onchip_error* error);

#ifdef __cplusplus
}
#endif

#endif
