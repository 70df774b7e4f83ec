#pragma once
// The functions of broadcast_checkpoint.hpp.

#include <soma/parallel/broadcast_checkpoint.hpp>

#include <soma/parallel/agreement.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/state/checkpoint.hpp>

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::uint64_t count_of(std::string_view text) {
  std::uint64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

SOMA_INLINE StateDict broadcast_state(Communicator& communicator, Context& context,
                                      const StateDict& state) {
  std::vector<std::string> outlines;
  for (const auto& [name, tensor] : state) {
    outlines.push_back(name);
    outlines.push_back(std::to_string(static_cast<unsigned>(tensor.dtype())));
    std::vector<std::string> sizes;
    for (const std::size_t size : tensor.shape()) sizes.push_back(std::to_string(size));
    outlines.push_back(join(sizes));
  }
  outlines = split(broadcast_text(communicator, join(outlines), 0));
  StateDict result;
  for (std::size_t i = 0; i + 2 < outlines.size(); i += 3) {
    std::vector<std::size_t> sizes;
    for (const std::string& size : split(outlines[i + 2])) sizes.push_back(count_of(size));
    const Tensor tensor = Tensor::empty(context, Shape(std::span<const std::size_t>(sizes)),
                                        static_cast<DType>(count_of(outlines[i + 1])));
    if (communicator.rank() == 0) copy(state.at(outlines[i]), tensor);
    if (tensor.bytes() != 0) broadcast(communicator, {tensor.mutable_raw(), tensor.bytes()});
    result.set(outlines[i], tensor);
  }
  return result;
}

SOMA_INLINE Record broadcast_record(Communicator& communicator, const Record& record) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : record.entries()) {
    entries.push_back(name);
    entries.push_back(std::to_string(static_cast<unsigned>(value.kind)));
    switch (value.kind) {
      case RecordValue::Kind::boolean:
        entries.push_back(value.boolean ? "1" : "0");
        break;
      case RecordValue::Kind::integer:
        entries.push_back(std::to_string(static_cast<std::uint64_t>(value.integer)));
        break;
      case RecordValue::Kind::count:
        entries.push_back(std::to_string(value.count));
        break;
      case RecordValue::Kind::number:
        entries.push_back(std::to_string(std::bit_cast<std::uint64_t>(value.number)));
        break;
      case RecordValue::Kind::text:
        entries.push_back(value.text);
        break;
    }
  }
  entries = split(broadcast_text(communicator, join(entries), 0));
  Record result(record.purpose());
  for (std::size_t i = 0; i + 2 < entries.size(); i += 3) {
    const std::string& text = entries[i + 2];
    const std::uint64_t bits = count_of(text);
    switch (static_cast<RecordValue::Kind>(count_of(entries[i + 1]))) {
      case RecordValue::Kind::boolean:
        result.set(entries[i], bits != 0);
        break;
      case RecordValue::Kind::integer:
        result.set(entries[i], static_cast<std::int64_t>(bits));
        break;
      case RecordValue::Kind::count:
        result.set(entries[i], bits);
        break;
      case RecordValue::Kind::number:
        result.set(entries[i], std::bit_cast<double>(bits));
        break;
      case RecordValue::Kind::text:
        result.set(entries[i], text);
        break;
    }
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Checkpoint broadcast_checkpoint(Communicator& communicator, Context& context,
                                            const Checkpoint& checkpoint) {
  Checkpoint result;
  for (const CheckpointState which : all_checkpoint_states)
    result.state(which) = detail::broadcast_state(communicator, context, checkpoint.state(which));
  result.progress = detail::broadcast_record(communicator, checkpoint.progress);
  result.identity = detail::broadcast_record(communicator, checkpoint.identity);
  return result;
}

}  // namespace SOMA_NAMESPACE
