// Connections: messages of one from an NPU to another go one after another, as on a queue pair or channel.
#pragma once

#include <cstdint>

namespace astra {

// The connection of a message, by the names of `astra_message_v2`: those of queues count from -1 down, those of flows from 1 up.
// 0: one for the message alone.
constexpr std::int64_t connection_of(std::int32_t queue, std::uint64_t flow) {
  return queue >= 0 ? ~std::int64_t{queue} : static_cast<std::int64_t>(flow);
}

}  // namespace astra
