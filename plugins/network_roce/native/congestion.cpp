#include "congestion.hpp"

#include "dcqcn.hpp"
#include "dctcp.hpp"
#include "hpcc.hpp"
#include "pint.hpp"
#include "swift.hpp"
#include "timely.hpp"

namespace astra::roce {

std::unique_ptr<Congestion> make_congestion(const Tools& tools) {
  switch (tools.settings.algorithm) {
    case Algorithm::dcqcn:
      return std::make_unique<Dcqcn>(tools);
    case Algorithm::hpcc:
      return std::make_unique<Hpcc>(tools);
    case Algorithm::timely:
      return std::make_unique<Timely>(tools);
    case Algorithm::dctcp:
      return std::make_unique<Dctcp>(tools);
    case Algorithm::pint:
      return std::make_unique<Pint>(tools);
    case Algorithm::swift:
      return std::make_unique<Swift>(tools);
    case Algorithm::none:
      break;
  }
  return std::make_unique<Congestion>(tools);
}

}  // namespace astra::roce
