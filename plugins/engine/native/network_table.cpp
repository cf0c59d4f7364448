#include "network_table.hpp"

#include <exception>
#include <new>
#include <string>

#include "errors.hpp"

namespace astra::engine {
namespace {

// Call a function of the network. Its exceptions become a NetworkFailure that names it.
template <typename Function, typename... Arguments>
auto called(const char* name, Function function, Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (const std::bad_alloc&) {
    throw;  // the run has too little memory, whoever asks for it
  } catch (const std::exception& error) {
    throw NetworkFailure(std::string(name) + " threw an exception: " + error.what());
  } catch (...) {
    throw NetworkFailure(std::string(name) + " threw an exception");
  }
}

}  // namespace

bool NetworkTable::is_whole(NetworkKind network) const {
  if (network == NetworkKind::delays) return first_ ? first_->delay : second_->delay;
  return first_ ? first_->inject && first_->advance : second_->inject && second_->advance;
}

Time NetworkTable::delay(NpuId source, NpuId destination, std::int64_t bytes) const {
  const auto from = narrow<std::int32_t>(source);
  const auto to = narrow<std::int32_t>(destination);
  return first_ ? called("delay", first_->delay, first_->state, from, to, bytes)
                : called("delay", second_->delay, second_->state, from, to, bytes);
}

void NetworkTable::inject(Time now, std::span<const astra_message_v2> messages) const {
  if (second_) {
    if (called("inject", second_->inject, second_->state, now, messages.data(), messages.size()) != 0) fail("inject");
    return;
  }
  std::vector<astra_message> plain;
  plain.reserve(messages.size());
  for (const astra_message_v2& each : messages) plain.push_back({each.number, each.bytes, each.source, each.destination, each.queue, 0});
  if (called("inject", first_->inject, first_->state, now, plain.data(), plain.size()) != 0) fail("inject");
}

std::span<const astra_delivery> NetworkTable::advance(Time since, Time until, Time& time, std::vector<astra_delivery>& room) const {
  const std::uint64_t* numbers = nullptr;
  const astra_delivery* reported = nullptr;
  std::size_t count = 0;
  const int status = first_ ? called("advance", first_->advance, first_->state, until, &time, &numbers, &count)
                            : called("advance", second_->advance, second_->state, until, &time, &reported, &count);
  if (status != 0) fail("advance");
  if (count == 0) return {};
  if (!numbers && !reported) throw NetworkFailure("advance returned " + std::to_string(count) + " messages without their numbers (NULL)");
  if (time < since || time > until) {
    const std::string right = until == ASTRA_NEVER ? "expected " + std::to_string(since) + " or later"
                                                   : "expected " + std::to_string(since) + " to " + std::to_string(until);
    throw NetworkFailure("advance returned the time " + std::to_string(time) + "; " + right);
  }
  if (reported) return {reported, count};
  room.clear();
  for (std::size_t place = 0; place < count; ++place) room.push_back({numbers[place], ASTRA_ARRIVED, 0});
  return room;
}

void NetworkTable::fail(const char* function) const {
  const char* why = nullptr;
  if (first_ && first_->error) why = called("error", first_->error, first_->state);
  if (second_ && second_->error) why = called("error", second_->error, second_->state);
  throw NetworkFailure(why ? why : std::string(function) + " failed");
}

}  // namespace astra::engine
