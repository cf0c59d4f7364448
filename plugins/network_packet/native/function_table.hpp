// The network function table that the kernel's header declares.
#pragma once

#include <memory>

#include "astra_sim/network.h"
#include "message_network.hpp"

namespace astra::packet {

// A table that owns the network, to be freed with `destroy_table`.
astra_network* make_table(std::shared_ptr<MessageNetwork> network);
void destroy_table(astra_network* table);

}  // namespace astra::packet
