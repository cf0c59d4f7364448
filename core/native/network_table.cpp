#include "network_table.hpp"

#include <exception>
#include <string>

#include "errors.hpp"

namespace astra::engine {
namespace {

// Call a function of the network. What it throws becomes a NetworkFailure that names it.
template <typename Function, typename... Arguments>
auto called(const char* name, Function function, Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (const std::exception& error) {
    throw NetworkFailure(std::string(name) + " threw an exception: " + error.what());
  } catch (...) {
    throw NetworkFailure(std::string(name) + " threw an exception");
  }
}

}  // namespace

Time NetworkTable::delay(NpuId source, NpuId destination, std::int64_t bytes) const {
  return called("delay", table_->delay, table_->state, narrow<std::int32_t>(source), narrow<std::int32_t>(destination), bytes);
}

void NetworkTable::inject(Time now, const std::vector<astra_message>& messages) const {
  if (called("inject", table_->inject, table_->state, now, messages.data(), messages.size()) != 0) fail("inject");
}

bool NetworkTable::advance(Time since, Time until, Time& time, std::vector<std::uint64_t>& numbers) const {
  const std::uint64_t* answer = nullptr;
  std::size_t count = 0;
  if (called("advance", table_->advance, table_->state, until, &time, &answer, &count) != 0) fail("advance");
  if (count == 0) return false;
  if (!answer) throw NetworkFailure("advance returned " + std::to_string(count) + " messages without their numbers (NULL)");
  if (time < since || time > until) {
    const std::string right = until == ASTRA_NEVER ? "expected " + std::to_string(since) + " or later"
                                                   : "expected " + std::to_string(since) + " to " + std::to_string(until);
    throw NetworkFailure("advance returned the time " + std::to_string(time) + "; " + right);
  }
  numbers.assign(answer, answer + count);
  return true;
}

void NetworkTable::fail(const char* function) const {
  const char* why = table_->error ? called("error", table_->error, table_->state) : nullptr;
  throw NetworkFailure(why ? why : std::string(function) + " failed");
}

}  // namespace astra::engine
