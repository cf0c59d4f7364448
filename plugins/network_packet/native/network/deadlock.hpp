// Wait cycles of a network in which nothing moves any more.
#pragma once

#include <string>
#include <vector>

#include "links/credit_channels.hpp"
#include "network/shape.hpp"
#include "routers/input_buffers.hpp"

namespace astra::packet {

// For each channel whose first flit cannot go on, the channel it waits for: "A waits for B", a line each, forming a cycle if there is
// one.
std::vector<std::string> waiting(const Shape& shape, const CreditChannels& credits, const InputBuffers& inputs);

}  // namespace astra::packet
