// SPDX-License-Identifier: GPL-2.0-only
// The network function table that the kernel's header declares, version 2.
#pragma once

#include <memory>

#include "astra_sim/network.h"
#include "network.hpp"

namespace astra::tcp {

// A table that shares the network, to be freed with `destroy_table`.
astra_network_v2* make_table(std::shared_ptr<Network> network);
void destroy_table(astra_network_v2* table);

}  // namespace astra::tcp
