#pragma once
// Names that a record of instructions refers to.

#include <soma/neuroncore/order/instruction.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace soma::neuroncore {

struct RegionName {
  std::string name;
  std::uint32_t parent = 0;  // RecordNames::regions[parent - 1]; 0: none
};
struct CallName {
  std::string name;  // of the operator
};
struct RecordNames {
  std::vector<RegionName> regions;
  std::vector<CallName> calls;
};

}  // namespace soma::neuroncore
