#pragma once
// The functions of save_part.hpp.

#include <soma/train/save_part.hpp>

#include <soma/parallel/agreement.hpp>
#include <soma/state/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void take_part(Checkpoint& checkpoint, CheckpointState which,
                           const CheckpointPart& part, bool mine, std::vector<PartToSave>& parts) {
  StateDict own = std::exchange(checkpoint.state(which), {});
  checkpoint.parts[which] = part.count;
  if (mine) parts.push_back({which, part, std::move(own)});
}

}  // namespace SOMA_NAMESPACE::train
