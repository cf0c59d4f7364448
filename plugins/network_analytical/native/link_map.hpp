// The directed links of a platform: astra_sim_network_analytical.link_map, in C++.
#pragma once

#include <astra_sim/fabric/destination_routes.hpp>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace astra::analytical {

enum class Shape { ring, fully_connected, switched, table };

// The links of one group of a dimension.
struct DimensionLinks {
  Shape shape;
  std::int32_t size;
  std::int32_t links;
  std::vector<double> bandwidth, latency_ns;  // of every link, or a single one for all
  double nic_latency_ns, router_latency_ns;
  std::unique_ptr<fabric::DestinationRoutes> routes;  // where the shape is a table

  std::int32_t next_link(std::int32_t node, std::int32_t destination) const {
    switch (shape) {
      case Shape::ring: {
        const std::int32_t ahead = destination >= node ? destination - node : destination - node + size;
        return ahead <= size - ahead ? node : size + node;
      }
      case Shape::fully_connected:
        return node * size + destination;
      case Shape::switched:
        return node < size ? node : size + destination;
      default:
        return routes->next_link(node, destination);
    }
  }

  std::int32_t target(std::int32_t link) const {
    switch (shape) {
      case Shape::ring:
        if (link < size) return link + 1 < size ? link + 1 : 0;
        return (link > size ? link : 2 * size) - 1 - size;
      case Shape::fully_connected:
        return link % size;
      case Shape::switched:
        return link < size ? size : link - size;
      default:
        return routes->target(link);
    }
  }

  double bandwidth_of(std::int32_t link) const { return bandwidth[bandwidth.size() > 1 ? index(link) : 0]; }
  double latency_of(std::int32_t link) const { return latency_ns[latency_ns.size() > 1 ? index(link) : 0]; }
};

// All links of a platform, numbered: dimension by dimension, group by group.
class LinkMap {
 public:
  explicit LinkMap(std::vector<DimensionLinks> dimensions) : dimensions_(std::move(dimensions)) {
    for (const DimensionLinks& d : dimensions_) {
      strides_.push_back(npus_);
      npus_ *= d.size;
    }
    std::int64_t links = 0;
    for (const DimensionLinks& d : dimensions_) {
      first_link_.push_back(links);
      links += npus_ / d.size * d.links;
    }
  }

  std::int64_t npus() const { return npus_; }
  std::size_t count() const { return dimensions_.size(); }
  const DimensionLinks& dimension(std::size_t index) const { return dimensions_[index]; }
  std::int64_t stride(std::size_t index) const { return strides_[index]; }

  std::int32_t coordinate(std::int64_t npu, std::size_t index) const {
    if (dimensions_.size() == 1) return static_cast<std::int32_t>(npu);
    return static_cast<std::int32_t>(npu / strides_[index] % dimensions_[index].size);
  }

  // The dimension of a link.
  std::size_t dimension_of(std::int64_t number) const {
    std::size_t index = dimensions_.size() - 1;
    while (first_link_[index] > number) --index;
    return index;
  }

  std::int64_t number(std::int64_t npu, std::size_t index, std::int32_t link) const {
    if (dimensions_.size() == 1) return link;
    const std::int64_t stride = strides_[index], group = npu % stride + npu / (stride * dimensions_[index].size) * stride;
    return first_link_[index] + group * dimensions_[index].links + link;
  }

 private:
  std::vector<DimensionLinks> dimensions_;
  std::vector<std::int64_t> strides_, first_link_;
  std::int64_t npus_ = 1;
};

}  // namespace astra::analytical
