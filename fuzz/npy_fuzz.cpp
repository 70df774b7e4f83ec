// Any bytes as a .npy file: refused, or a tensor that can be read and whose header is written and
// read the same.

#include <soma/io/npy.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/runtime/context.hpp>

#include "check.hpp"
#include "memory_file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Reading files needs a context's memory and none of its kernels.
  static const soma::Target target{"none", nullptr, false, nullptr};
  static soma::Context context({.threads = 1}, {std::span(&target, 1), false});
  const soma_fuzz::MemoryFile file(data, size);
  try {
    const soma::Tensor tensor = soma::load_npy(context, file.path());
    soma_fuzz::check(tensor.bytes() < size, "no more elements than bytes");
    std::size_t bytes = 0;
    soma::detail::for_each_piece(tensor,
                                 [&](std::span<const std::byte> piece) { bytes += piece.size(); });
    soma_fuzz::check(bytes == tensor.bytes(), "every element is there");
    soma::StateDict state;
    state.set("tensor", tensor);
    static_cast<void>(soma::state_hash(state));  // reads every element
    std::string_view type;
    for (const soma::detail::NpyType& known : soma::detail::npy_types)
      if (known.dtype == tensor.dtype()) type = known.name;
    const std::string header = soma::detail::npy_header(type, tensor.shape());
    const soma::detail::NpyHeader again =
        soma::detail::NpyHeaderReader("fuzz", "header", header).read();
    soma_fuzz::check(again.type == type && again.data_offset == header.size() &&
                         soma::Shape(std::span<const std::size_t>(again.sizes)) == tensor.shape(),
                     "the header reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
