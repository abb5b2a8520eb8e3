/* SPDX-License-Identifier: Apache-2.0 */
/* The header in C, and a caller as it would be written in C. */
#include "tests/api/c_caller.h"

int fits_in_c(const char* chip_name, int hidden, double density, onchip_fit* fit, onchip_error* error) {
  onchip_chip* chip = NULL;
  onchip_network network = {sizeof(onchip_network), ONCHIP_LSTM, ONCHIP_FP16, 0, 4, 0, ONCHIP_TIER_SHARED_MEMORY};
  onchip_status status;
  network.hidden = hidden;
  network.density = density;
  status = onchip_chip_create(chip_name, &chip, error);
  if (status == ONCHIP_OK) {
    status = onchip_fit_network(chip, &network, NULL, fit, error);
  }
  onchip_chip_destroy(chip);
  return (int)status;
}
